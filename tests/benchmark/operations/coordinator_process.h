// A coordinator as operators run it: the program itself, in a process of its own, on real files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/security/credentials.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::benchmark {

// How its callers are known.
enum class Door { kOpen, kTls, kTlsAndTokens };

// Ends this process where something fails. Kills the coordinator when destroyed. One thread at a
// time, but for the const members.
class CoordinatorProcess {
 public:
  explicit CoordinatorProcess(Door door);
  ~CoordinatorProcess();
  CoordinatorProcess(const CoordinatorProcess&) = delete;

  const std::string& address() const { return address_; }
  int http_port() const { return http_port_; }

  // Of a caller with a certificate for this name; plaintext if the door is open.
  std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const std::string& name) const;
  // Of an admin.
  static const std::string& token();

  // CPU time of all its threads so far.
  double CpuSeconds() const;
  double ResidentMegabytes() const;

 private:
  const Door door_;
  const TempDir folder_;
  const TestAuthority authority_{"benchmark"};
  pid_t pid_ = 0;
  std::string address_;
  int http_port_ = 0;
};

}  // namespace longhaul::benchmark
