#include "tests/testing/certificates.h"

#include <sys/stat.h>

#include <cstdio>
#include <fstream>

#include "common/base/check.h"
#include "common/rpc/openssl_ptr.h"
#include "openssl/pem.h"
#include "openssl/rand.h"
#include "openssl/x509v3.h"

namespace longhaul {
namespace {

using Extension = OpensslPtr<X509_EXTENSION, X509_EXTENSION_free>;

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, size);
}

std::string ToPem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  LH_CHECK(PEM_write_bio_X509(bio.get(), certificate) == 1, "a certificate in PEM");
  return TextOf(bio.get());
}

std::string ToPem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  LH_CHECK(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
           "a key in PEM");
  return TextOf(bio.get());
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  LH_CHECK(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1,
           "an extension");
}

// Not signed yet. If `issuer` is null it is its own issuer.
CertificatePtr MakeCertificate(const std::string& name, EVP_PKEY* key, X509* issuer) {
  CertificatePtr certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  uint64_t serial = 0;
  LH_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof(serial)) == 1, "a serial");
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 24 * 3600);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(),
                       X509_get_subject_name(issuer != nullptr ? issuer : certificate.get()));
  X509_set_pubkey(certificate.get(), key);
  return certificate;
}

void Sign(X509* certificate, EVP_PKEY* key) {
  LH_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0, "a signature");
}

void Write(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  std::ofstream(draft) << text;
  LH_CHECK(chmod(draft.c_str(), 0600) == 0, "a file of the test");
  LH_CHECK(std::rename(draft.c_str(), path.c_str()) == 0, "a file of the test");
}

}  // namespace

struct TestAuthority::Keys {
  KeyPtr key;
  CertificatePtr certificate;
};

TestAuthority::TestAuthority(const std::string& name) : keys_(std::make_unique<Keys>()) {
  keys_->key.reset(EVP_EC_gen("P-256"));
  keys_->certificate = MakeCertificate(name, keys_->key.get(), nullptr);
  X509* certificate = keys_->certificate.get();
  AddExtension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE");
  AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  Sign(certificate, keys_->key.get());
  certificate_ = ToPem(certificate);
}

TestAuthority::~TestAuthority() = default;

Identity TestAuthority::Issue(const std::string& name, const std::string& hosts) const {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const CertificatePtr certificate = MakeCertificate(name, key.get(), keys_->certificate.get());
  AddExtension(certificate.get(), keys_->certificate.get(), NID_subject_alt_name, hosts);
  Sign(certificate.get(), keys_->key.get());
  return {ToPem(certificate.get()), ToPem(key.get())};
}

TlsFiles WriteTlsFiles(const std::string& folder, const std::string& ca, const Identity& identity) {
  const TlsFiles files{folder + "/ca.pem", folder + "/certificate.pem", folder + "/key.pem"};
  Write(files.ca, ca);
  Write(files.certificate, identity.certificate);
  Write(files.key, identity.key);
  return files;
}

}  // namespace longhaul
