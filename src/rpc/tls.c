/*
 * rpc/tls.c: TLS 1.3 on a client's socket, with ALPN, and with clients' certificates where an authority is given.
 *
 * OpenSSL is opened when it is needed (bridge/openssl.h). Sockets are written by a BIO of ours, because OpenSSL's own
 * would raise SIGPIPE.
 */
#include "rpc/private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "bridge/openssl.h"

static int bio_write(BIO *bio, const char *from, int len)
{
    const struct mu_rpc_conn *conn = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    do
        n = send(conn->fd, from, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    return (int)n;
}

static int bio_read(BIO *bio, char *to, int size)
{
    const struct mu_rpc_conn *conn = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    do
        n = recv(conn->fd, to, (size_t)size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    return (int)n;
}

/* One for the process, made by the first server, in the loop's thread. */
static BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method;

    if (!method)
        method = mu_openssl_socket("muster rpc", bio_write, bio_read);
    return method;
}

/* OpenSSL's own words for what went wrong first, all of which is forgotten. */
static const char *first_words(void)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

    ERR_clear_error();
    return reason ? reason : "for no reason that it gives";
}

/* Clients of gRPC offer "h2". Who offers something and not that would not understand us; who offers nothing may. */
static int choose(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len, const unsigned char *names,
                  unsigned len, void *arg)
{
    (void)ssl;
    (void)arg;
    for (unsigned at = 0; at < len; at += names[at] + 1u)
        if (names[at] == 2 && at + 2 < len && memcmp(names + at + 1, "h2", 2) == 0) {
            *ret_name = names + at + 1;
            *ret_len = 2;
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static enum muster_status load_files(SSL_CTX *tls, const struct mu_rpc_tls *o)
{
    if (!o->certificate || !o->private_key)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "TLS needs a certificate and its private key");
    if (SSL_CTX_use_certificate_chain_file(tls, o->certificate) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the certificate %s cannot be used: %s", o->certificate, first_words());
    if (SSL_CTX_use_PrivateKey_file(tls, o->private_key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(tls) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the private key %s cannot be used: %s", o->private_key, first_words());
    if (o->authority && SSL_CTX_load_verify_file(tls, o->authority) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the authority's certificate %s cannot be used: %s", o->authority,
                       first_words());
    return MUSTER_OK;
}

enum muster_status mu_rpc_tls_open(const struct mu_rpc_tls *o, struct ssl_ctx_st **ret_tls)
{
    static const unsigned char context[] = "muster";
    enum muster_status status;
    char why[400];
    SSL_CTX *tls;

    if (mu_openssl_open(NULL, why, sizeof why))
        return mu_fail(MUSTER_UNAVAILABLE, "%s", why);
    tls = SSL_CTX_new(TLS_method());
    if (!tls || !bio_method() || !SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) ||
        !SSL_CTX_set_num_tickets(tls, 0) || !SSL_CTX_set_session_id_context(tls, context, sizeof context - 1)) {
        SSL_CTX_free(tls);
        return mu_fail(MUSTER_INTERNAL, "OpenSSL gives no TLS 1.3: %s", first_words());
    }
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(tls,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(tls, 1);
    SSL_CTX_set_verify(tls, o->authority ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_alpn_select_cb(tls, choose, NULL);
    status = load_files(tls, o);
    if (status)
        SSL_CTX_free(tls);
    else
        *ret_tls = tls;
    return status;
}

void mu_rpc_tls_free(struct ssl_ctx_st *tls)
{
    SSL_CTX_free(tls);
}

bool mu_rpc_tls_begin(struct mu_rpc_conn *conn)
{
    BIO *bio;

    conn->ssl = SSL_new(conn->rpc->tls);
    bio = conn->ssl ? BIO_new(bio_method()) : NULL;
    if (!bio) {
        ERR_clear_error();
        return false;
    }
    BIO_set_data(bio, conn);
    BIO_set_init(bio, 1);
    SSL_set_bio(conn->ssl, bio, bio);
    SSL_set_accept_state(conn->ssl);
    return true;
}

void mu_rpc_tls_end(struct mu_rpc_conn *conn)
{
    SSL_free(conn->ssl);
    conn->ssl = NULL;
}

int mu_rpc_tls_shake(struct mu_rpc_conn *conn)
{
    int n, error;

    ERR_clear_error();
    n = SSL_do_handshake(conn->ssl);
    if (n == 1)
        return MU_TLS_DONE;
    error = SSL_get_error(conn->ssl, n);
    if (error == SSL_ERROR_WANT_READ)
        return MU_TLS_READS;
    if (error == SSL_ERROR_WANT_WRITE)
        return MU_TLS_WRITES;
    if (error == SSL_ERROR_SSL) {
        int reason = ERR_GET_REASON(ERR_peek_error());
        bool clear = reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST;

        snprintf(conn->why, sizeof conn->why, "no TLS came about: %s",
                 clear ? "it speaks in the clear, and this server has a certificate" : first_words());
        ERR_clear_error();
    }
    return -1;
}

/* The result of SSL_read or SSL_write as recv() and send() give it. */
static long result(struct mu_rpc_conn *conn, int ok, size_t n)
{
    if (ok > 0)
        return (long)n;
    switch (SSL_get_error(conn->ssl, ok)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: ERR_clear_error(); return errno ? -1 : 0;
    default:
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) { /* as of a process that ends */
            ERR_clear_error();
            return 0;
        }
        snprintf(conn->why, sizeof conn->why, "its TLS broke: %s", first_words());
        errno = EBADMSG;
        return -1;
    }
}

long mu_rpc_tls_read(struct mu_rpc_conn *conn, void *to, size_t size)
{
    size_t n = 0;
    int ok;

    ERR_clear_error(); /* SSL_get_error() looks at whatever is left there */
    errno = 0;
    ok = SSL_read_ex(conn->ssl, to, size, &n);
    return result(conn, ok, n);
}

long mu_rpc_tls_write(struct mu_rpc_conn *conn, const void *from, size_t size)
{
    size_t n = 0;
    int ok;

    ERR_clear_error();
    errno = 0;
    ok = SSL_write_ex(conn->ssl, from, size, &n);
    return result(conn, ok, n);
}
