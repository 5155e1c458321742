#include "coordinator/cli/site_kit.h"

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/base/host_port.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/io/file_error.h"
#include "common/rpc/pem_file.h"

extern char** environ;

namespace longhaul {

extern const unsigned char kFile_README_txt[], kFile_worker_yaml[], kFile_start_sh[],
    kFile_install_service_sh[], kFile_compose_yaml[], kFile_values_yaml[],
    kFile_longhaul_worker_service[], kFile_pool_sbatch[];

namespace cli {
namespace {

struct KitFile {
  const char* name;
  const unsigned char* text;
  mode_t mode;
};
const KitFile kFiles[] = {{"README.txt", kFile_README_txt, 0644},
                          {"worker.yaml", kFile_worker_yaml, 0644},
                          {"start.sh", kFile_start_sh, 0755},
                          {"install-service.sh", kFile_install_service_sh, 0755},
                          {"compose.yaml", kFile_compose_yaml, 0644},
                          {"values.yaml", kFile_values_yaml, 0644},
                          {"longhaul-worker.service", kFile_longhaul_worker_service, 0644},
                          {"pool.sbatch", kFile_pool_sbatch, 0755}};

absl::StatusOr<CertificateFiles> CertificateOf(const SiteKitRequest& request) {
  absl::StatusOr<CertificateFiles> files = ReadCertificate(request.folder, request.pool);
  if (!absl::IsNotFound(files.status())) return files;
  return IssueCertificate(
      request.folder,
      {.kind = CertificateKind::kPool, .name = request.pool, .hosts = {}, .days = request.days});
}

absl::Status WriteKit(const SiteKitRequest& request, const CertificateFiles& files,
                      const std::string& folder) {
  const std::string tls = folder + "/tls";
  if (mkdir(folder.c_str(), 0700) != 0 || mkdir(tls.c_str(), 0700) != 0)
    return FileError(errno, tls);
  for (const KitFile& file : kFiles) {
    const std::string text =
        absl::StrReplaceAll(reinterpret_cast<const char*>(file.text),
                            {{"@POOL@", request.pool}, {"@COORDINATOR@", request.coordinator}});
    LH_RETURN_IF_ERROR(WriteNew(absl::StrCat(folder, "/", file.name), text, file.mode));
  }
  for (const auto& [from, name, mode] : {std::tuple{request.folder + "/ca.pem", "ca.pem", 0644},
                                         {files.certificate, "", 0644},
                                         {files.key, "", 0600}}) {
    LH_ASSIGN_OR_RETURN(const std::string text, ReadPem(from, from));
    const std::string to = *name != '\0' ? name : std::filesystem::path(from).filename().string();
    LH_RETURN_IF_ERROR(WriteNew(absl::StrCat(tls, "/", to), text, static_cast<mode_t>(mode)));
  }
  return absl::OkStatus();
}

// With root as the owner, whoever makes it: if root unpacks it, its files must not be those of
// whichever user has the same number there.
absl::Status Pack(const std::string& parent, const std::string& name, const std::string& out) {
  std::vector<std::string> words = {"tar",  "--owner=0", "--group=0", "-C",
                                    parent, "-czf",      out,         name};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, "tar", nullptr, nullptr, argv.data(), environ) != 0)
    return absl::NotFoundError("tar is not installed, which makes the archive");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(out, ": tar could not write it"));
}

}  // namespace

absl::StatusOr<CertificateFiles> MakeSiteKit(const SiteKitRequest& request) {
  if (!IsName(request.pool)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name '", request.pool, "' is not ", kNameForm));
  }
  LH_RETURN_IF_ERROR(ParseHostPort(request.coordinator).status());
  // It also keeps the place, and who may read it.
  LH_RETURN_IF_ERROR(WriteNew(request.out, "", 0600));
  absl::Cleanup remove = [&request] { unlink(request.out.c_str()); };
  LH_ASSIGN_OR_RETURN(CertificateFiles files, CertificateOf(request));
  std::string parent = absl::StrCat(request.folder, "/kit-XXXXXX");
  if (mkdtemp(parent.data()) == nullptr) return FileError(errno, parent);
  const absl::Cleanup clear = [&parent] {
    std::error_code error;
    std::filesystem::remove_all(parent, error);
  };
  const std::string name = "longhaul-" + request.pool;
  LH_RETURN_IF_ERROR(WriteKit(request, files, absl::StrCat(parent, "/", name)));
  LH_RETURN_IF_ERROR(Pack(parent, name, request.out));
  std::move(remove).Cancel();
  return files;
}

}  // namespace cli
}  // namespace longhaul
