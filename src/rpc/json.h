/*
 * rpc/json.h: as much of JSON as finds a value in a text that ends with a NUL. All else is stepped over: brackets are
 * counted, not matched, and escapes are left in.
 */
#ifndef MU_RPC_JSON_H
#define MU_RPC_JSON_H

#include <stdbool.h>
#include <stddef.h>

void mu_json_blank(const char **at);
/* That character comes next, and is stepped over. */
bool mu_json_take(const char **at, char c);
/* A string: where its inside begins, and how long it is. */
bool mu_json_string(const char **at, const char **ret_text, size_t *ret_len);
/* Any value. */
bool mu_json_skip(const char **at);
/* Within an object, to the value of that name. */
bool mu_json_find(const char **at, const char *name);

#endif
