// The certificate that an HTTP server shows, with its key. It may change while the server runs.
#pragma once

#include <functional>
#include <memory>
#include <string>

struct gnutls_pcert_st;
struct gnutls_privkey_st;

namespace longhaul {

// In PEM: the certificate, then intermediate ones, if any.
struct HttpIdentity {
  std::string certificate, key;
  friend bool operator==(const HttpIdentity&, const HttpIdentity&) = default;
};

// The identity as GnuTLS takes it. Of one thread.
class LoadedIdentity {
 public:
  // What is to be shown now.
  using Source = std::function<HttpIdentity()>;

  explicit LoadedIdentity(Source source);
  ~LoadedIdentity();
  LoadedIdentity(const LoadedIdentity&) = delete;

  // As a gnutls_certificate_retrieve_function2 gives them; they stay valid for the handshakes that
  // have begun. Not 0: the identity cannot be used.
  int Retrieve(gnutls_pcert_st** certificates, unsigned* count, gnutls_privkey_st** key);

 private:
  struct Loaded;

  const Source source_;
  // The one before may be in a handshake still.
  std::unique_ptr<Loaded> loaded_, before_;
};

}  // namespace longhaul
