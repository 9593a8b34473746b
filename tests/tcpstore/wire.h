/*
 * tests/tcpstore/wire.h: clients of a real TCPStore server, which is at a real engine (tests/coord/counter.h): raw
 * sockets, in the same thread. The server does nothing but within hear() and the like, which are bounded.
 *
 *     wire_open();
 *     struct client *c = client_of('B');
 *     say(c, SET, "ss", "/k", "v");
 *     say(c, GET, "s", "/k");
 *     hear(c, "s", "v");
 *     wire_close();
 *
 * Shapes of what is said and heard: 's' a C string with its length in front, 'b' bytes and how many (size_t), likewise;
 * '8' an int64_t or a count, '4' a uint32_t, '1' a byte (both as unsigned).
 */
#ifndef MUSTER_TEST_WIRE_H
#define MUSTER_TEST_WIRE_H

#include "counter.h"

#include "compat/tcpstore.h"
#include "compat/tcpstore_scan.h"

enum call {
    VALIDATE,
    SET,
    COMPARE_SET,
    GET,
    ADD,
    CHECK,
    WAIT,
    NUM,
    DELETE,
    APPEND,
    MULTI_GET,
    MULTI_SET,
    CANCEL,
    PING,
    PUSH,
    POP,
    LEN,
    LIST,
    BARRIER,
    WATCH
};

struct client {
    int fd;
    char dialect;
};

extern struct mu_tcpstore *store;
extern char wire_said[4096]; /* the server's last sentence */
extern unsigned wire_sentences;

#define wire_open() wire_open_for(2)
/* A job of so many tasks; the server with its options as they are without any. */
#define wire_open_for(tasks)                                                                                           \
    do {                                                                                                               \
        counter_open((tasks), NULL);                                                                                   \
        wire_start(NULL);                                                                                              \
    } while (0)
#define wire_close()                                                                                                   \
    do {                                                                                                               \
        wire_stop();                                                                                                   \
        counter_close();                                                                                               \
    } while (0)
void wire_start(const struct mu_tcpstore_options *options);
void wire_stop(void);  /* all clients, too */
int wire_strike(void); /* teardown after a failed test */
struct mu_tcpstore_stats wire_stats(void);

/* The server of another host: in a far test the leader's, else a second one at the same engine. */
void wire_start_other(void);
struct client *client_of_other(void); /* of dialect B */

/* A connection that has said nothing, and one that has said VALIDATE where it is of dialect B. */
struct client *client_new(void);
struct client *client_of(char dialect);
void client_close(struct client *c);

void say(struct client *c, enum call call, const char *shape, ...);
void hear(struct client *c, const char *shape, ...);
/* The same, of bytes. What is sent has been read by the server then, unless it does not read. */
void say_bytes(struct client *c, const void *bytes, size_t len);
void hear_bytes(struct client *c, void *bytes, size_t len);
/* A request as bytes: how many. */
size_t spell(char dialect, uint8_t *to, size_t room, enum call call, const char *shape, ...);
/* So many bytes, if they are there by now. */
bool hears_now(struct client *c, void *bytes, size_t len);
/* It has nothing to hear, now that the server has done all it can do. */
void hear_nothing(struct client *c);
void hear_the_end(struct client *c); /* it is closed, and nothing comes before that */
/* Until so many connections wait. */
void wire_until_waiting(uint32_t count);

#ifdef COUNTER_FAR
#define WIRE_TEST(name)      TEST_WITH(name, NULL, wire_strike_far)
#define WIRE_NEAR_TEST(name) NEAR_TEST(name)
#else
#define WIRE_TEST(name)      TEST_WITH(name, NULL, wire_strike)
#define WIRE_NEAR_TEST(name) WIRE_TEST(name)
#endif
int wire_strike_far(void);

#endif
