#include "common/http/identity.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include <array>
#include <utility>

namespace longhaul {
namespace {

constexpr unsigned kChainMax = 16;

gnutls_datum_t DatumOf(std::string& text) {
  return {reinterpret_cast<unsigned char*>(text.data()), static_cast<unsigned>(text.size())};
}

}  // namespace

struct LoadedIdentity::Loaded {
  HttpIdentity from;
  std::array<gnutls_pcert_st, kChainMax> certificates = {};
  unsigned count = 0;
  gnutls_privkey_t key = nullptr;

  Loaded() = default;
  Loaded(const Loaded&) = delete;
  ~Loaded() {
    for (unsigned i = 0; i < count; ++i) gnutls_pcert_deinit(&certificates[i]);
    if (key != nullptr) gnutls_privkey_deinit(key);
  }
  // 0, or GnuTLS's error.
  int Load() {
    const gnutls_datum_t chain = DatumOf(from.certificate), secret = DatumOf(from.key);
    unsigned found = kChainMax;
    int error = gnutls_pcert_list_import_x509_raw(certificates.data(), &found, &chain,
                                                  GNUTLS_X509_FMT_PEM, /*flags=*/0);
    if (error < 0) return error;
    count = found;
    error = gnutls_privkey_init(&key);
    if (error < 0) return error;
    return gnutls_privkey_import_x509_raw(key, &secret, GNUTLS_X509_FMT_PEM, nullptr, 0);
  }
};

LoadedIdentity::LoadedIdentity(Source source) : source_(std::move(source)) {}

LoadedIdentity::~LoadedIdentity() = default;

int LoadedIdentity::Retrieve(gnutls_pcert_st** certificates, unsigned* count,
                             gnutls_privkey_st** key) {
  HttpIdentity now = source_();
  if (loaded_ == nullptr || loaded_->from != now) {
    auto loaded = std::make_unique<Loaded>();
    loaded->from = std::move(now);
    if (const int error = loaded->Load(); error < 0) return error;
    before_ = std::exchange(loaded_, std::move(loaded));
  }
  *certificates = loaded_->certificates.data();
  *count = loaded_->count;
  *key = loaded_->key;
  return 0;
}

}  // namespace longhaul
