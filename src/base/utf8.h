/* base/utf8.h: whether bytes are UTF-8. */
#ifndef MU_BASE_UTF8_H
#define MU_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that `text` starts with; 0: none does (surrogates, overlong forms, past U+10FFFF, cut). */
size_t mu_utf8_length(const void *text, size_t len);
bool mu_is_utf8(const void *text, size_t len);
/* The longest beginning of at most `max` bytes that cuts no character: of text that is UTF-8. */
size_t mu_utf8_cut(const void *text, size_t len, size_t max);
/* Copy text of `len` bytes. What does not fit into `size` is cut between two words, where one ends in the second half,
 * and " ..." stands for the rest. Returns the length. */
size_t mu_utf8_copy(char *to, size_t size, const char *text, size_t len);

#endif
