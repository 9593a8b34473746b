/*
 * bridge/link/tls.c: TLS 1.3 on a link's sockets: with the job's key on both sides, or with certificates on both.
 *
 * The key is an external PSK with an ephemeral exchange: an attacker that learns the key later cannot read what was
 * said before. The proof of knowing it is the handshake's binder, which OpenSSL compares in constant time; no secret is
 * compared here. Without certificates a side that does not know the key has nothing else to show, and the handshake
 * fails.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bridge/link/private.h"

static const unsigned char identity[] = {'m', 'u', 's', 't', 'e', 'r'};
static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256: the key goes with SHA-256 */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

/* ---- the key ---- */

static SSL_SESSION *session_of_key(SSL *ssl)
{
    const struct mu_link_peer *p = SSL_get_app_data(ssl);
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && cipher && SSL_SESSION_set1_master_key(session, p->link->key, MU_KEY_BYTES) &&
        SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int find_key(SSL *ssl, const unsigned char *name, size_t len, SSL_SESSION **ret_session)
{
    *ret_session = NULL;
    if (len != sizeof identity || memcmp(name, identity, len) != 0) /* a public name */
        return 1;
    *ret_session = session_of_key(ssl);
    return *ret_session != NULL;
}

static int use_key(SSL *ssl, const EVP_MD *hash, const unsigned char **ret_name, size_t *ret_len,
                   SSL_SESSION **ret_session)
{
    *ret_session = NULL;
    if (hash && EVP_MD_get_type(hash) != EVP_MD_get_type(EVP_sha256()))
        return 1;
    *ret_name = identity;
    *ret_len = sizeof identity;
    *ret_session = session_of_key(ssl);
    return *ret_session != NULL;
}

/* ---- contexts ---- */

enum muster_status mu_tls_look(const struct mu_link_options *o, bool *ret_is_secure)
{
    bool has_files = o->certificate || o->private_key || o->authority;

    *ret_is_secure = o->key || has_files;
    if (o->key && has_files)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "give either a key or certificates, not both");
    if (has_files && (!o->certificate || !o->private_key || !o->authority))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "certificates need all three: one's own, its private key, and that of "
                                                "the authority which signed both sides'");
    return MUSTER_OK;
}

enum muster_status mu_tls_open(struct mu_link *link)
{
    const struct mu_link_options *o = &link->options;
    enum muster_status status;
    SSL_CTX *tls;

    if (!link->is_secure)
        return MUSTER_OK;
    status = mu_openssl_context(link->side == MU_LINK_LEADER, &tls);
    if (status)
        return status;
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_default_read_buffer_len(tls, MU_LINK_TLS);
    if (!SSL_CTX_set_ciphersuites(tls, SUITES))
        status = mu_fail(MUSTER_INTERNAL, "OpenSSL gives no TLS 1.3: %s", mu_openssl_words());
    else if (!o->key)
        status = mu_openssl_files(tls, o->certificate, o->private_key, o->authority);
    else if (link->side == MU_LINK_LEADER)
        SSL_CTX_set_psk_find_session_callback(tls, find_key);
    else
        SSL_CTX_set_psk_use_session_callback(tls, use_key);
    if (status)
        SSL_CTX_free(tls);
    else
        link->tls = tls;
    return status;
}

/* ---- one connection ---- */

/* The leader's certificate must be for the name or number that the follower was told. */
static bool expect_name(SSL *ssl, const char *host)
{
    if (!host[0])
        host = "127.0.0.1";
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
        return true;
    ERR_clear_error();
    return SSL_set1_host(ssl, host) == 1;
}

/* Where it was told to connect to: by its user, or by the leader, which names a relay by its number. */
static const char *peer_told_address(const struct mu_link_peer *p, char number[64])
{
    struct mu_link_name name;

    if (!p->is_moving)
        return p->link->dial.name.host;
    if (mu_link_name_parse(p->from, &name))
        return "?";
    snprintf(number, 64, "%.63s", name.host);
    return number;
}

bool mu_tls_begin(struct mu_link_peer *p)
{
    struct mu_link *link = p->link;
    char number[64];

    if (!link->tls) {
        link->calls->secured(p);
        return false;
    }
    p->socket =
        (struct mu_openssl_socket){.fd = &p->fd, .bytes_in = &p->stats->bytes_in, .bytes_out = &p->stats->bytes_out};
    p->ssl = mu_openssl_begin(link->tls, &p->socket);
    if (!p->ssl || (link->side == MU_LINK_FOLLOWER && link->options.certificate &&
                    !expect_name(p->ssl, peer_told_address(p, number)))) {
        ERR_clear_error();
        mu_peer_close(p, MU_LINK_QUIET, "there is no memory for TLS");
        return false;
    }
    SSL_set_app_data(p->ssl, p);
    if (link->side == MU_LINK_LEADER)
        SSL_set_accept_state(p->ssl);
    else
        SSL_set_connect_state(p->ssl);
    return true;
}

/* The handshake failed with an alert or a fault of TLS: both sides mean it, so another attempt would fail the same way.
 */
static void say_failure(struct mu_link_peer *p)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);
    bool has_key = p->link->options.key != NULL, is_leader = p->link->side == MU_LINK_LEADER;
    /* the leader finds that the binder is wrong, and OpenSSL 3 tells the follower so by this alert */
    int wrong_key = is_leader ? SSL_R_BINDER_DOES_NOT_VERIFY : SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER;
    const char *because = mu_openssl_words();
    char words[160], why[200];

    mu_peer_words(p, words, sizeof words);
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST)
        snprintf(why, sizeof why, "does not speak TLS: is it there without a key, or another program?");
    else if (has_key && reason == wrong_key)
        snprintf(why, sizeof why, "has another key than this host: give both sides the same one");
    else if (has_key)
        snprintf(why, sizeof why, "could not prove that it has the job's key (%s)", because);
    else
        snprintf(why, sizeof why, "was not believed by its certificate, or did not believe ours (%s)", because);
    if (is_leader)
        mu_link_say(p->link, "refused %s: it %s", words, why);
    mu_peer_close(p, is_leader ? MU_LINK_QUIET : MU_LINK_REFUSED, "%s %s", words, why);
}

/* A peer without TLS at a leader with a key: one that joins in the clear shall be told so in the clear. */
static bool speaks_clear(struct mu_link_peer *p)
{
    static const char why[] = "it came in the clear, and this job has a key: give it the same one";
    char words[160];
    uint8_t first[2];

    if (p->link->side != MU_LINK_LEADER || recv(p->fd, first, 2, MSG_PEEK | MSG_DONTWAIT) != 2 || first[0] != 'M' ||
        first[1] != 'u' || !SSL_in_before(p->ssl))
        return false;
    SSL_free(p->ssl);
    p->ssl = NULL;
    mu_peer_words(p, words, sizeof words);
    mu_link_say(p->link, "refused %s: %s", words, why);
    mu_peer_dismiss(p, why);
    return true;
}

void mu_tls_shake(struct mu_link_peer *p)
{
    int n, error;

    if (speaks_clear(p))
        return;
    ERR_clear_error();
    n = SSL_do_handshake(p->ssl);
    if (n == 1 && (!p->link->options.key || SSL_session_reused(p->ssl))) { /* "reused": by the key, not otherwise */
        p->link->calls->secured(p);
        if (p->state != MU_LINK_CLOSED) /* what came behind the handshake is in OpenSSL's hands already */
            mu_peer_read(p);
        return;
    }
    error = SSL_get_error(p->ssl, n);
    if (n == 1 || error == SSL_ERROR_SSL)
        say_failure(p);
    else if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
        mu_peer_close(p, MU_LINK_QUIET, "it closed the connection during the handshake");
}

bool mu_tls_has_begun(const struct mu_link_peer *p)
{
    OSSL_HANDSHAKE_STATE state = SSL_get_state(p->ssl);

    return state != TLS_ST_BEFORE && state != TLS_ST_SR_CLNT_HELLO;
}
