/*
 * bridge/link/tls.c: TLS 1.3 on a link's sockets: with the job's key on both sides, or with certificates on both.
 *
 * The key is an external PSK with an ephemeral exchange: an attacker that learns the key later cannot read what was
 * said before. The proof of knowing it is the handshake's binder, which OpenSSL compares in constant time; no secret is
 * compared here. Without certificates a side that does not know the key has nothing else to show, and the handshake
 * fails. Sockets are written by a BIO of ours, because OpenSSL's own would raise SIGPIPE.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bridge/link/private.h"

static const unsigned char identity[] = {'m', 'u', 's', 't', 'e', 'r'};
static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256: the key goes with SHA-256 */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"

/* ---- the socket ---- */

static int bio_write(BIO *bio, const char *from, int len)
{
    struct mu_link_peer *p = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    do
        n = send(p->fd, from, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        p->stats->bytes_out += (uint64_t)n;
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    return (int)n;
}

static int bio_read(BIO *bio, char *to, int size)
{
    struct mu_link_peer *p = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    do
        n = recv(p->fd, to, (size_t)size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        p->stats->bytes_in += (uint64_t)n;
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    return (int)n;
}

/* One for the process, made once, by whichever link is first: links are made one after the other. */
static BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method;

    if (!method)
        method = mu_openssl_socket("muster", bio_write, bio_read);
    return method;
}

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

/* OpenSSL's own words for the last error, which is forgotten. */
static const char *last_words(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;

    ERR_clear_error();
    return reason ? reason : "for no reason that it gives";
}

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

static enum muster_status load_files(SSL_CTX *tls, const struct mu_link_options *o)
{
    if (SSL_CTX_use_certificate_chain_file(tls, o->certificate) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the certificate %s cannot be used: %s", o->certificate, last_words());
    if (SSL_CTX_use_PrivateKey_file(tls, o->private_key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(tls) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the private key %s cannot be used: %s", o->private_key, last_words());
    if (SSL_CTX_load_verify_file(tls, o->authority) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the authority's certificate %s cannot be used: %s", o->authority,
                       last_words());
    return MUSTER_OK;
}

enum muster_status mu_tls_open(struct mu_link *link)
{
    const struct mu_link_options *o = &link->options;
    enum muster_status status = MUSTER_OK;
    char why[400];
    SSL_CTX *tls;

    if (!link->is_secure)
        return MUSTER_OK;
    if (mu_openssl_open(NULL, why, sizeof why))
        return mu_fail(MUSTER_UNAVAILABLE, "%s", why);
    tls = SSL_CTX_new(TLS_method());
    if (!tls || !bio_method() || !SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(tls, SUITES) || !SSL_CTX_set_num_tickets(tls, 0) ||
        (link->side == MU_LINK_LEADER && !SSL_CTX_set_session_id_context(tls, identity, sizeof identity))) {
        SSL_CTX_free(tls);
        return mu_fail(MUSTER_INTERNAL, "OpenSSL gives no TLS 1.3: %s", last_words());
    }
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(tls,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(tls, 1);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    if (!o->key)
        status = load_files(tls, o);
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
    BIO *bio;

    if (!link->tls) {
        link->calls->secured(p);
        return false;
    }
    p->ssl = SSL_new(link->tls);
    bio = p->ssl ? BIO_new(bio_method()) : NULL;
    if (!bio || (link->side == MU_LINK_FOLLOWER && link->options.certificate &&
                 !expect_name(p->ssl, peer_told_address(p, number)))) {
        BIO_free(bio);
        ERR_clear_error();
        mu_peer_close(p, MU_LINK_QUIET, "there is no memory for TLS");
        return false;
    }
    BIO_set_data(bio, p);
    BIO_set_init(bio, 1);
    SSL_set_bio(p->ssl, bio, bio);
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
    const char *because = last_words();
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

/* The result of SSL_read or SSL_write as read() and write() give it. */
static long tls_result(struct mu_link_peer *p, int ok, size_t n)
{
    if (ok > 0)
        return (long)n;
    switch (SSL_get_error(p->ssl, ok)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: ERR_clear_error(); return errno ? -1 : 0;
    default:
        ERR_clear_error();
        errno = EBADMSG; /* bytes that were changed on their way, or an end that TLS did not announce */
        return -1;
    }
}

long mu_tls_read(struct mu_link_peer *p, void *to, size_t size)
{
    size_t n = 0;
    int ok;

    ERR_clear_error(); /* SSL_get_error() looks at whatever is left there */
    errno = 0;
    ok = SSL_read_ex(p->ssl, to, size, &n);
    return tls_result(p, ok, n);
}

long mu_tls_write(struct mu_link_peer *p, const void *from, size_t size)
{
    size_t n = 0;
    int ok;

    ERR_clear_error();
    errno = 0;
    ok = SSL_write_ex(p->ssl, from, size, &n);
    return tls_result(p, ok, n);
}
