// Makes certificates for tests and benchmarks of TLS: P-256 keys, valid for a day.
#pragma once

#include <memory>
#include <string>

#include "common/rpc/tls_files.h"

namespace longhaul {

// PEM texts.
struct Identity {
  std::string certificate, key;
};

class TestAuthority {
 public:
  // Its certificates must have other names: a certificate whose issuer has the same name counts as
  // signed by itself.
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();

  const std::string& certificate() const { return certificate_; }
  // `hosts`: the names for which the certificate is valid, for example
  // "DNS:localhost,IP:127.0.0.1".
  Identity Issue(const std::string& name, const std::string& hosts) const;

 private:
  struct Keys;
  std::unique_ptr<Keys> keys_;
  std::string certificate_;
};

// Writes ca.pem, certificate.pem and key.pem into the folder. Each is replaced atomically, and its
// owner's alone.
TlsFiles WriteTlsFiles(const std::string& folder, const std::string& ca, const Identity& identity);

}  // namespace longhaul
