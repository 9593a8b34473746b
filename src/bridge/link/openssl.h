/*
 * bridge/link/openssl.h: OpenSSL, opened when the first link that needs it is made.
 *
 * Linked, even as archives, it would cost every start of the command 0.5 ms, most of them for jobs of one host: 18,000
 * relocations, 100 pages that they change, and questions about the processor, which a virtual machine traps. The names
 * of OpenSSL's calls mean the members of a table here, so its users are written as ever; what is not in the table is
 * not linked.
 */
#ifndef MU_BRIDGE_LINK_OPENSSL_H
#define MU_BRIDGE_LINK_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

/* libcrypto's calls are found through it. */
#define MU_OPENSSL_TEXT(number) #number
#define MU_OPENSSL_NAME(number) "libssl.so." MU_OPENSSL_TEXT(number)
#define MU_OPENSSL_LIBRARY      MU_OPENSSL_NAME(OPENSSL_SHLIB_VERSION)

/* What muster calls, some of them through macros of OpenSSL. */
#define MU_OPENSSL_BIO(each)                                                                                           \
    each(BIO_clear_flags) each(BIO_free) each(BIO_get_data) each(BIO_get_new_index) each(BIO_meth_new)                 \
        each(BIO_meth_set_ctrl) each(BIO_meth_set_read) each(BIO_meth_set_write) each(BIO_new) each(BIO_set_data)      \
            each(BIO_set_flags) each(BIO_set_init)
#define MU_OPENSSL_NAMES(each)                                                                                         \
    each(ASN1_STRING_get0_data) each(ASN1_STRING_length) each(GENERAL_NAMES_free) each(OPENSSL_sk_num)                 \
        each(OPENSSL_sk_value) each(X509_STORE_CTX_get0_cert) each(X509_STORE_CTX_set_error) each(X509_get_ext_d2i)    \
            each(X509_verify_cert)
#define MU_OPENSSL_CRYPTO(each)                                                                                        \
    each(ERR_clear_error) each(ERR_peek_error) each(ERR_reason_error_string) each(EVP_MD_get_type) each(EVP_sha256)    \
        each(OPENSSL_init_ssl) each(X509_VERIFY_PARAM_set1_ip_asc)
#define MU_OPENSSL_SESSION(each)                                                                                       \
    each(SSL_CIPHER_find) each(SSL_SESSION_free) each(SSL_SESSION_new) each(SSL_SESSION_set1_master_key)               \
        each(SSL_SESSION_set_cipher) each(SSL_SESSION_set_protocol_version)
#define MU_OPENSSL_CONTEXT(each)                                                                                       \
    each(SSL_CTX_check_private_key) each(SSL_CTX_ctrl) each(SSL_CTX_free) each(SSL_CTX_load_verify_file)               \
        each(SSL_CTX_new) each(SSL_CTX_set_alpn_select_cb) each(SSL_CTX_set_ciphersuites)                              \
            each(SSL_CTX_set_default_read_buffer_len) each(SSL_CTX_set_cert_verify_callback)                           \
                each(SSL_CTX_set_num_tickets) each(SSL_CTX_set_psk_find_session_callback)                              \
                    each(SSL_CTX_set_psk_use_session_callback) each(SSL_CTX_set_session_id_context)                    \
                        each(SSL_CTX_set_verify) each(SSL_CTX_use_PrivateKey_file)                                     \
                            each(SSL_CTX_use_certificate_chain_file) each(TLS_method)
#define MU_OPENSSL_CONNECTION(each)                                                                                    \
    each(SSL_do_handshake) each(SSL_free) each(SSL_get0_param) each(SSL_get_error) each(SSL_get_ex_data)               \
        each(SSL_get_verify_result) each(SSL_get_state) each(SSL_has_pending) each(SSL_in_before)                      \
            each(SSL_is_init_finished) each(SSL_new) each(SSL_read_ex) each(SSL_session_reused) each(SSL_set1_host)    \
                each(SSL_set_accept_state) each(SSL_set_bio) each(SSL_set_connect_state) each(SSL_set_ex_data)         \
                    each(SSL_shutdown) each(SSL_write_ex)
#define MU_OPENSSL_CALLS(each)                                                                                         \
    MU_OPENSSL_BIO(each)                                                                                               \
    MU_OPENSSL_NAMES(each)                                                                                             \
    MU_OPENSSL_CRYPTO(each) MU_OPENSSL_SESSION(each) MU_OPENSSL_CONTEXT(each) MU_OPENSSL_CONNECTION(each)

struct mu_openssl {
#define MEMBER(name) __typeof__(name) *name;
    MU_OPENSSL_CALLS(MEMBER)
#undef MEMBER
};

/* Filled by mu_openssl_open(); once filled it stays so. */
extern struct mu_openssl mu_openssl;

/*
 * Open `library` (NULL: the version that muster was built with). Called by one thread at a time; after the first
 * success it does nothing. 0, or -1 with the reason and the remedy in `why`.
 */
int mu_openssl_open(const char *library, char *why, size_t size);

/* ---- openssl_socket.c ---- */

/* The socket of a connection, below its TLS; it outlives that. */
struct mu_openssl_socket {
    const int *fd;
    uint64_t *bytes_in, *bytes_out; /* counted there; or NULL */
    bool goes_on;                   /* more is written at once behind what is: the kernel may wait for it */
};

/*
 * What every user of TLS here has: version 1.3 alone, no tickets, no cache of sessions, partial writes. OpenSSL is
 * opened for it. `accepts`: connections are accepted with it, not made.
 */
enum muster_status mu_openssl_context(bool accepts, SSL_CTX **ret_tls);
/* A certificate, its private key and, unless it is NULL, the authority of the other side's, all files in PEM. */
enum muster_status mu_openssl_files(SSL_CTX *tls, const char *certificate, const char *private_key,
                                    const char *authority);
/* A connection on the socket; NULL: no memory. */
SSL *mu_openssl_begin(SSL_CTX *tls, struct mu_openssl_socket *socket);
/* As recv() and send() have it. EBADMSG: TLS broke, and OpenSSL's errors are still there to be looked at. */
long mu_openssl_read(SSL *ssl, void *to, size_t size);
long mu_openssl_write(SSL *ssl, const void *from, size_t size);
/* OpenSSL's own words for what went wrong first, all of which is forgotten. */
const char *mu_openssl_words(void);

#ifndef MU_OPENSSL_ITSELF
#define ASN1_STRING_get0_data                 mu_openssl.ASN1_STRING_get0_data
#define ASN1_STRING_length                    mu_openssl.ASN1_STRING_length
#define BIO_clear_flags                       mu_openssl.BIO_clear_flags
#define BIO_free                              mu_openssl.BIO_free
#define BIO_get_data                          mu_openssl.BIO_get_data
#define BIO_get_new_index                     mu_openssl.BIO_get_new_index
#define BIO_meth_new                          mu_openssl.BIO_meth_new
#define BIO_meth_set_ctrl                     mu_openssl.BIO_meth_set_ctrl
#define BIO_meth_set_read                     mu_openssl.BIO_meth_set_read
#define BIO_meth_set_write                    mu_openssl.BIO_meth_set_write
#define BIO_new                               mu_openssl.BIO_new
#define BIO_set_data                          mu_openssl.BIO_set_data
#define BIO_set_flags                         mu_openssl.BIO_set_flags
#define BIO_set_init                          mu_openssl.BIO_set_init
#define ERR_clear_error                       mu_openssl.ERR_clear_error
#define ERR_peek_error                        mu_openssl.ERR_peek_error
#define ERR_reason_error_string               mu_openssl.ERR_reason_error_string
#define EVP_MD_get_type                       mu_openssl.EVP_MD_get_type
#define EVP_sha256                            mu_openssl.EVP_sha256
#define GENERAL_NAMES_free                    mu_openssl.GENERAL_NAMES_free
#define OPENSSL_sk_num                        mu_openssl.OPENSSL_sk_num
#define OPENSSL_sk_value                      mu_openssl.OPENSSL_sk_value
#define X509_STORE_CTX_get0_cert              mu_openssl.X509_STORE_CTX_get0_cert
#define X509_STORE_CTX_set_error              mu_openssl.X509_STORE_CTX_set_error
#define X509_VERIFY_PARAM_set1_ip_asc         mu_openssl.X509_VERIFY_PARAM_set1_ip_asc
#define X509_get_ext_d2i                      mu_openssl.X509_get_ext_d2i
#define X509_verify_cert                      mu_openssl.X509_verify_cert
#define SSL_CIPHER_find                       mu_openssl.SSL_CIPHER_find
#define SSL_SESSION_free                      mu_openssl.SSL_SESSION_free
#define SSL_SESSION_new                       mu_openssl.SSL_SESSION_new
#define SSL_SESSION_set1_master_key           mu_openssl.SSL_SESSION_set1_master_key
#define SSL_SESSION_set_cipher                mu_openssl.SSL_SESSION_set_cipher
#define SSL_SESSION_set_protocol_version      mu_openssl.SSL_SESSION_set_protocol_version
#define SSL_CTX_check_private_key             mu_openssl.SSL_CTX_check_private_key
#define SSL_CTX_ctrl                          mu_openssl.SSL_CTX_ctrl
#define SSL_CTX_free                          mu_openssl.SSL_CTX_free
#define SSL_CTX_load_verify_file              mu_openssl.SSL_CTX_load_verify_file
#define SSL_CTX_new                           mu_openssl.SSL_CTX_new
#define SSL_CTX_set_alpn_select_cb            mu_openssl.SSL_CTX_set_alpn_select_cb
#define SSL_CTX_set_cert_verify_callback      mu_openssl.SSL_CTX_set_cert_verify_callback
#define SSL_CTX_set_ciphersuites              mu_openssl.SSL_CTX_set_ciphersuites
#define SSL_CTX_set_default_read_buffer_len   mu_openssl.SSL_CTX_set_default_read_buffer_len
#define SSL_CTX_set_num_tickets               mu_openssl.SSL_CTX_set_num_tickets
#define SSL_CTX_set_psk_find_session_callback mu_openssl.SSL_CTX_set_psk_find_session_callback
#define SSL_CTX_set_psk_use_session_callback  mu_openssl.SSL_CTX_set_psk_use_session_callback
#define SSL_CTX_set_session_id_context        mu_openssl.SSL_CTX_set_session_id_context
#define SSL_CTX_set_verify                    mu_openssl.SSL_CTX_set_verify
#define SSL_CTX_use_PrivateKey_file           mu_openssl.SSL_CTX_use_PrivateKey_file
#define SSL_CTX_use_certificate_chain_file    mu_openssl.SSL_CTX_use_certificate_chain_file
#define TLS_method                            mu_openssl.TLS_method
#define SSL_do_handshake                      mu_openssl.SSL_do_handshake
#define SSL_free                              mu_openssl.SSL_free
#define SSL_get0_param                        mu_openssl.SSL_get0_param
#define SSL_get_error                         mu_openssl.SSL_get_error
#define SSL_get_ex_data                       mu_openssl.SSL_get_ex_data
#define SSL_get_state                         mu_openssl.SSL_get_state
#define SSL_get_verify_result                 mu_openssl.SSL_get_verify_result
#define SSL_has_pending                       mu_openssl.SSL_has_pending
#define SSL_in_before                         mu_openssl.SSL_in_before
#define SSL_is_init_finished                  mu_openssl.SSL_is_init_finished
#define SSL_new                               mu_openssl.SSL_new
#define SSL_read_ex                           mu_openssl.SSL_read_ex
#define SSL_session_reused                    mu_openssl.SSL_session_reused
#define SSL_set1_host                         mu_openssl.SSL_set1_host
#define SSL_set_accept_state                  mu_openssl.SSL_set_accept_state
#define SSL_set_bio                           mu_openssl.SSL_set_bio
#define SSL_set_connect_state                 mu_openssl.SSL_set_connect_state
#define SSL_set_ex_data                       mu_openssl.SSL_set_ex_data
#define SSL_shutdown                          mu_openssl.SSL_shutdown
#define SSL_write_ex                          mu_openssl.SSL_write_ex
#endif

#endif
