/*
 * rpc/tls.c: TLS 1.3 on a client's socket, with ALPN, and with clients' certificates where an authority is given: then
 * a prefix of their URIs may be asked for, too.
 *
 * OpenSSL is opened when it is needed (bridge/link/openssl.h).
 */
#include "rpc/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

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

enum muster_status mu_rpc_tls_open(struct mu_rpc *rpc)
{
    const struct mu_rpc_tls *o = rpc->options.tls;
    enum muster_status status;
    SSL_CTX *tls;

    if (!o->certificate || !o->private_key)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "TLS needs a certificate and its private key");
    status = mu_openssl_context(true, &tls);
    if (status)
        return status;
    SSL_CTX_set_verify(tls, o->authority ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_alpn_select_cb(tls, protocol_choose, NULL);
    status = mu_openssl_files(tls, o->certificate, o->private_key, o->authority);
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
    conn->socket.fd = &conn->fd;
    conn->ssl = mu_openssl_begin(conn->rpc->tls, &conn->socket);
    if (conn->ssl)
        SSL_set_accept_state(conn->ssl);
    return conn->ssl != NULL;
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
                            : mu_openssl_words());
        ERR_clear_error();
    }
    return -1;
}

/* `n` as of mu_openssl_read(): why TLS broke is the connection's `why`. */
static long explain_break(struct mu_rpc_conn *conn, long n)
{
    if (n >= 0 || errno != EBADMSG)
        return n;
    if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) { /* as of a process that ends */
        ERR_clear_error();
        return 0;
    }
    snprintf(conn->why, sizeof conn->why, "its TLS broke: %s", mu_openssl_words());
    errno = EBADMSG;
    return -1;
}

long mu_rpc_tls_read(struct mu_rpc_conn *conn, void *to, size_t size)
{
    return explain_break(conn, mu_openssl_read(conn->ssl, to, size));
}

long mu_rpc_tls_write(struct mu_rpc_conn *conn, const void *from, size_t size)
{
    return explain_break(conn, mu_openssl_write(conn->ssl, from, size));
}
