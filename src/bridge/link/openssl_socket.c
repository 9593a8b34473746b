/*
 * bridge/link/openssl_socket.c: TLS on a socket by OpenSSL, as the bridge's links and the gRPC server both have it.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "bridge/link/openssl.h"

const char *mu_openssl_words(void)
{
    unsigned long code = ERR_peek_error();
    const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

    ERR_clear_error();
    return reason ? reason : "for no reason that it gives";
}

/* ---- sockets: OpenSSL's own BIO of one would raise SIGPIPE ---- */

static int bio_write(BIO *bio, const char *from, int len)
{
    const struct mu_openssl_socket *socket = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    do
        n = send(*socket->fd, from, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT | (socket->goes_on ? MSG_MORE : 0));
    while (n < 0 && errno == EINTR);
    if (n > 0 && socket->bytes_out)
        *socket->bytes_out += (uint64_t)n;
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    return (int)n;
}

static int bio_read(BIO *bio, char *to, int size)
{
    const struct mu_openssl_socket *socket = BIO_get_data(bio);
    ssize_t n;

    BIO_clear_retry_flags(bio);
    do
        n = recv(*socket->fd, to, (size_t)size, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n > 0 && socket->bytes_in)
        *socket->bytes_in += (uint64_t)n;
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    return (int)n;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing is held back; of all else nothing is known */
}

/* Made by the first context: contexts are made one after the other. Never freed: OpenSSL has few numbers for them. */
static BIO_METHOD *socket_method;

static bool make_socket_method(void)
{
    if (socket_method)
        return true;
    socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster");
    if (!socket_method)
        return false;
    BIO_meth_set_write(socket_method, bio_write);
    BIO_meth_set_read(socket_method, bio_read);
    BIO_meth_set_ctrl(socket_method, bio_control);
    return true;
}

/* ---- contexts and connections ---- */

enum muster_status mu_openssl_context(bool accepts, SSL_CTX **ret_tls)
{
    static const unsigned char name[] = {'m', 'u', 's', 't', 'e', 'r'};
    char why[400];
    SSL_CTX *tls;

    if (mu_openssl_open(NULL, why, sizeof why))
        return mu_fail(MUSTER_UNAVAILABLE, "%s", why);
    tls = SSL_CTX_new(TLS_method());
    if (!tls || !make_socket_method() || !SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) ||
        !SSL_CTX_set_num_tickets(tls, 0) || (accepts && !SSL_CTX_set_session_id_context(tls, name, sizeof name))) {
        SSL_CTX_free(tls);
        return mu_fail(MUSTER_INTERNAL, "OpenSSL gives no TLS 1.3: %s", mu_openssl_words());
    }
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(tls,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(tls, 1);
    *ret_tls = tls;
    return MUSTER_OK;
}

enum muster_status mu_openssl_files(SSL_CTX *tls, const char *certificate, const char *private_key,
                                    const char *authority)
{
    if (SSL_CTX_use_certificate_chain_file(tls, certificate) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the certificate %s cannot be used: %s", certificate,
                       mu_openssl_words());
    if (SSL_CTX_use_PrivateKey_file(tls, private_key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(tls) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the private key %s cannot be used: %s", private_key,
                       mu_openssl_words());
    if (authority && SSL_CTX_load_verify_file(tls, authority) != 1)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the authority's certificate %s cannot be used: %s", authority,
                       mu_openssl_words());
    return MUSTER_OK;
}

SSL *mu_openssl_begin(SSL_CTX *tls, struct mu_openssl_socket *socket)
{
    SSL *ssl = SSL_new(tls);
    BIO *bio = ssl ? BIO_new(socket_method) : NULL;

    if (!bio) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    BIO_set_data(bio, socket);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return ssl;
}

/* The result of SSL_read_ex or SSL_write_ex. */
static long io_result(SSL *ssl, int ok, size_t n)
{
    if (ok > 0)
        return (long)n;
    switch (SSL_get_error(ssl, ok)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL: ERR_clear_error(); return errno ? -1 : 0;
    default: errno = EBADMSG; return -1; /* bytes that were changed on their way, or an end that was not announced */
    }
}

long mu_openssl_read(SSL *ssl, void *to, size_t size)
{
    size_t n = 0;
    int ok;

    ERR_clear_error(); /* SSL_get_error() looks at whatever is left there */
    errno = 0;
    ok = SSL_read_ex(ssl, to, size, &n);
    return io_result(ssl, ok, n);
}

long mu_openssl_write(SSL *ssl, const void *from, size_t size)
{
    size_t n = 0;
    int ok;

    ERR_clear_error();
    errno = 0;
    ok = SSL_write_ex(ssl, from, size, &n);
    return io_result(ssl, ok, n);
}
