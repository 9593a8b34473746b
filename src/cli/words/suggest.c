/*
 * cli/words/suggest.c: what a mistyped word was meant to be.
 *
 * The nearest of the words that would have been right there, by edits of one letter (one more, one less, another one,
 * two swapped), case aside; or else the only one that begins with the word. At most a third of the letters may differ,
 * and two words at the same distance are no answer: a wrong guess helps less than none. Words of one or two letters
 * are near to everything, so for them nothing is said.
 */
#include "cli/cli.h"

#include <ctype.h>
#include <string.h>

#define LETTERS_MIN 3
#define LETTERS_MAX 40

static unsigned least_number(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Optimal string alignment; three rows of the table are enough. Both words are at most LETTERS_MAX long. */
static unsigned words_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][LETTERS_MAX + 1];

    for (unsigned j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        now[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);

            now[j] = least_number(last[j - 1] + (x != y), least_number(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]))
                now[j] = least_number(now[j], before[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

void mu_cli_guess_start(struct mu_cli_guess *guess, const char *word, size_t len)
{
    *guess = (struct mu_cli_guess){.word = word, .len = len, .distance = (unsigned)(len / 3) + 1};
    if (len < LETTERS_MIN || len > LETTERS_MAX)
        guess->len = 0;
}

void mu_cli_guess_see(struct mu_cli_guess *guess, const char *candidate)
{
    size_t len = strlen(candidate);
    unsigned edits;

    if (guess->len == 0 || len > LETTERS_MAX)
        return;
    if (len > guess->len && strncasecmp(candidate, guess->word, guess->len) == 0) {
        guess->num_longer += !guess->longer || strcmp(guess->longer, candidate) != 0;
        guess->longer = candidate;
    }
    edits = words_distance(guess->word, guess->len, candidate, len);
    if (edits < guess->distance) {
        guess->distance = edits;
        guess->nearest = candidate;
        guess->is_tied = 0;
    } else if (guess->nearest && edits == guess->distance && strcmp(candidate, guess->nearest) != 0) {
        guess->is_tied = 1;
    }
}

const char *mu_cli_guess_end(const struct mu_cli_guess *guess)
{
    if (guess->nearest && !guess->is_tied)
        return guess->nearest;
    return guess->num_longer == 1 ? guess->longer : NULL;
}

const char *mu_cli_did_you_mean(const struct mu_cli_guess *guess, const char *before, const char *after,
                                char buffer[MU_CLI_GUESS_TEXT])
{
    const char *meant = mu_cli_guess_end(guess);

    buffer[0] = 0;
    if (meant)
        snprintf(buffer, MU_CLI_GUESS_TEXT, "; did you mean %s%s%s?", before, meant, after);
    return buffer;
}
