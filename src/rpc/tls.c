/*
 * rpc/tls.c: TLS 1.3 on a client's socket, with ALPN, and with clients' certificates where an authority is given: then
 * a prefix of their URIs may be asked for, too.
 *
 * OpenSSL is opened when it is needed (bridge/link/openssl.h). Sockets are written by a BIO of ours, because OpenSSL's
 * own would raise SIGPIPE.
 */
#include "rpc/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "bridge/link/openssl.h"

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

/* Clients of gRPC offer "h2". A client that offers only others would not understand us; one without offers may. */
static int protocol_choose(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len, const unsigned char *names,
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

/* One of the URIs among its names begins with these bytes. */
static bool has_uri(const X509 *certificate, const char *prefix)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool found = false;

    for (int i = 0; names && i < sk_GENERAL_NAME_num(names) && !found; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        found = name->type == GEN_URI &&
                (size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier) >= strlen(prefix) &&
                memcmp(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier), prefix, strlen(prefix)) == 0;
    }
    GENERAL_NAMES_free(names);
    return found;
}

/* Instead of OpenSSL's own look at a client's chain: that, and then at its names. */
static int chain_verify(X509_STORE_CTX *chain, void *prefix)
{
    if (X509_verify_cert(chain) != 1)
        return 0;
    if (has_uri(X509_STORE_CTX_get0_cert(chain), prefix))
        return 1;
    ERR_clear_error(); /* of names that cannot be read */
    X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

static enum muster_status ask_for_uri(struct mu_rpc *rpc, SSL_CTX *tls)
{
    const struct mu_rpc_tls *o = rpc->options.tls;

    if (!o->peer_uri)
        return MUSTER_OK;
    if (!o->authority)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "clients' URIs can be asked for where they have an authority");
    if (!*o->peer_uri || o->peer_uri[strlen(o->peer_uri) - 1] != '/')
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "clients' URIs should begin with '%s': let it end in '/', or it means the beginning of a name",
                       o->peer_uri);
    rpc->peer_uri = strdup(o->peer_uri);
    if (!rpc->peer_uri)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a server");
    SSL_CTX_set_cert_verify_callback(tls, chain_verify, rpc->peer_uri);
    return MUSTER_OK;
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

enum muster_status mu_rpc_tls_open(struct mu_rpc *rpc)
{
    static const unsigned char context[] = "muster";
    const struct mu_rpc_tls *o = rpc->options.tls;
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
    SSL_CTX_set_alpn_select_cb(tls, protocol_choose, NULL);
    status = load_files(tls, o);
    if (!status)
        status = ask_for_uri(rpc, tls);
    if (status)
        SSL_CTX_free(tls);
    else
        rpc->tls = tls;
    return status;
}

void mu_rpc_tls_free(struct mu_rpc *rpc)
{
    if (rpc->tls) /* else OpenSSL may never have been opened */
        SSL_CTX_free(rpc->tls);
    free(rpc->peer_uri);
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
        bool stranger = SSL_get_verify_result(conn->ssl) == X509_V_ERR_APPLICATION_VERIFICATION;

        snprintf(conn->why, sizeof conn->why, "no TLS came about: %s",
                 clear      ? "it speaks in the clear, and this server has a certificate"
                 : stranger ? "its certificate has no URI that begins as those of this server's clients do"
                            : first_words());
        ERR_clear_error();
    }
    return -1;
}

/* The result of SSL_read or SSL_write as recv() and send() give it. */
static long tls_result(struct mu_rpc_conn *conn, int ok, size_t n)
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
    return tls_result(conn, ok, n);
}

long mu_rpc_tls_write(struct mu_rpc_conn *conn, const void *from, size_t size)
{
    size_t n = 0;
    int ok;

    ERR_clear_error();
    errno = 0;
    ok = SSL_write_ex(conn->ssl, from, size, &n);
    return tls_result(conn, ok, n);
}
