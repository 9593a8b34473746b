/* base/words.h: the words that one option may be, by their number, as a function of a line. */
#ifndef MU_BASE_WORDS_H
#define MU_BASE_WORDS_H

#include <stddef.h>

/* NULL behind the last one. */
#define MU_WORDS(name, ...)                                                                                            \
    const char *name(size_t number)                                                                                    \
    {                                                                                                                  \
        static const char *const words_[] = {__VA_ARGS__, NULL};                                                       \
                                                                                                                       \
        return words_[number];                                                                                         \
    }

#endif
