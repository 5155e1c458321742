#include "tests/benchmark/operations/coordinator_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "openssl/sha.h"

namespace longhaul::benchmark {
namespace {

constexpr absl::Duration kStart = absl::Seconds(30);

void WriteSecret(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  std::filesystem::permissions(path, std::filesystem::perms(0600));
}

std::string ReadWhole(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Beside the folder of this program, as the build lays them.
std::string Program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
         "bin/longhaul-coordinator";
}

pid_t Spawn(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments)
    pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  const pid_t pid = fork();
  LH_CHECK(pid >= 0, "no process");
  if (pid != 0) return pid;
  if (freopen(log.c_str(), "w", stderr) == nullptr) _exit(127);
  execv(pointers[0], pointers.data());
  _exit(127);
}

}  // namespace

const std::string& CoordinatorProcess::token() {
  static const std::string token = "0123456789abcdef0123456789abcdef";
  return token;
}

CoordinatorProcess::CoordinatorProcess(Door door) : door_(door) {
  const std::string ready = folder_.Join("ready"), log = folder_.Join("log");
  std::vector<std::string> arguments = {
      Program(),     "--listen",   "127.0.0.1:0",        "--http-listen",
      "127.0.0.1:0", "--data-dir", folder_.Join("data"), "--ready-file",
      ready};
  // Calls are counted, and one caller may make as many as it can.
  arguments.insert(arguments.end(), {"--calls-per-second", "1000000"});
  if (door != Door::kOpen) {
    const TlsFiles files = WriteTlsFiles(folder_.Join(""), authority_.certificate(),
                                         authority_.Issue("server", "IP:127.0.0.1"));
    for (const auto& [flag, path] : {std::pair("--tls-ca", files.ca),
                                     {"--tls-certificate", files.certificate},
                                     {"--tls-key", files.key}}) {
      arguments.insert(arguments.end(), {flag, path});
    }
  }
  if (door == Door::kTlsAndTokens) {
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    SHA256(reinterpret_cast<const unsigned char*>(token().data()), token().size(),
           reinterpret_cast<unsigned char*>(digest.data()));
    const std::string path = folder_.Join("tokens");
    WriteSecret(path, absl::StrCat("root admin sha256:", absl::BytesToHexString(digest), "\n"));
    arguments.insert(arguments.end(), {"--tokens", path});
  }
  pid_ = Spawn(arguments, log);
  for (const absl::Time end = absl::Now() + kStart; !std::filesystem::exists(ready);) {
    LH_CHECK(absl::Now() < end && waitpid(pid_, nullptr, WNOHANG) == 0,
             absl::StrCat("the coordinator does not start: ", ReadWhole(log)).c_str());
    absl::SleepFor(absl::Milliseconds(20));
  }
  const std::map<std::string, std::string> told =
      absl::StrSplit(ReadWhole(ready), absl::ByAnyChar("=\n"), absl::SkipEmpty());
  address_ = told.at("grpc");
  const std::string& http = told.at("http");
  http_port_ = std::stoi(http.substr(http.rfind(':') + 1));
}

CoordinatorProcess::~CoordinatorProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::shared_ptr<grpc::ChannelCredentials> CoordinatorProcess::CredentialsOf(
    const std::string& name) const {
  if (door_ == Door::kOpen) return grpc::InsecureChannelCredentials();
  const Identity identity = authority_.Issue(name, absl::StrCat("DNS:", name));
  return grpc::SslCredentials({authority_.certificate(), identity.key, identity.certificate});
}

double CoordinatorProcess::CpuSeconds() const {
  const std::string stat = ReadWhole(absl::StrCat("/proc/", pid_, "/stat"));
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(stat.rfind(')') + 2), ' ');
  // utime and stime: fields 14 and 15 of proc(5).
  return (std::stod(fields.at(11)) + std::stod(fields.at(12))) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

double CoordinatorProcess::ResidentMegabytes() const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/statm"));
  int64_t size = 0, resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / 1e6;
}

}  // namespace longhaul::benchmark
