/*
 * tests/bridge/certificates.c: keys and certificates in PEM files, by OpenSSL's own calls: no program is needed.
 */
#include "certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
};

static const char *path_of(char path[512], const char *which, const char *suffix)
{
    const char *folder = getenv("TMPDIR");

    snprintf(path, 512, "%s/%s.%s", folder ? folder : "/tmp", which, suffix);
    return path;
}

static void add(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

static X509 *sign(EVP_PKEY *key, const char *name, const char *names, const struct authority *by)
{
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);

    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), names ? 2 : 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, by ? X509_get_subject_name(by->certificate) : subject);
    if (names)
        add(certificate, by->certificate, NID_subject_alt_name, names);
    else
        add(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
    assert_true(X509_sign(certificate, by ? by->key : key, EVP_sha256()) > 0);
    return certificate;
}

static void write_files(const char *which, EVP_PKEY *key, X509 *certificate, const struct authority *by)
{
    char path[512];
    FILE *f = fopen(path_of(path, which, "key"), "w");

    assert_non_null(f);
    PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    f = fopen(path_of(path, which, "pem"), "w");
    PEM_write_X509(f, certificate);
    fclose(f);
    f = fopen(path_of(path, which, "ca"), "w");
    PEM_write_X509(f, by->certificate);
    fclose(f);
}

static struct authority make_authority(const char *name)
{
    struct authority a = {EVP_EC_gen("P-256"), NULL};

    a.certificate = sign(a.key, name, NULL, NULL);
    return a;
}

static void make_one(const char *which, const char *names, const struct authority *by)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = sign(key, which, names, by);

    write_files(which, key, certificate, by);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void certificates_make(void)
{
    static bool is_made;
    struct authority ours, theirs;

    if (is_made)
        return;
    is_made = true;
    ours = make_authority("our authority");
    theirs = make_authority("another authority");
    make_one("good", "DNS:localhost,IP:127.0.0.1", &ours);
    make_one("elsewhere", "DNS:elsewhere.example", &ours);
    make_one("foreign", "DNS:localhost,IP:127.0.0.1", &theirs);
    X509_free(ours.certificate);
    EVP_PKEY_free(ours.key);
    X509_free(theirs.certificate);
    EVP_PKEY_free(theirs.key);
}

void certificates_use(struct mu_link_options *options, const char *which)
{
    static char paths[12][512];
    static unsigned next;

    options->certificate = path_of(paths[next++ % 12], which, "pem");
    options->private_key = path_of(paths[next++ % 12], which, "key");
    options->authority = path_of(paths[next++ % 12], which, "ca");
}
