#include "coordinator/cli/initial_source.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/tokenizer_name.h"
#include "common/checkpoint/initial_folder.h"
#include "common/config/checkpoint_name.h"
#include "common/config/data_sources.h"
#include "common/config/job_spec.h"
#include "common/hf/hf_model.h"
#include "coordinator/cli/checkpoint_source.h"

namespace longhaul::cli {
namespace {

constexpr char kHere[] = "here:", kThere[] = "coordinator:", kUploadField[] = "init.upload";

std::string WholePath(const std::string& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();  // "a/b/" names b.
  return whole.string();
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

CliError ErrorOfFolder(const std::string& folder, const absl::Status& status) {
  CliError error =
      UsageError(absl::StrCat("--from ", folder, ": ", status.message()),
                 "the folder of a checkpoint contains manifest.json and the files that it lists, "
                 "the folder of a Hugging Face model config.json and safetensors; coordinator:DIR "
                 "means a folder on the coordinator's machine");
  error.code = absl::StatusCodeToString(status.code());
  if (const std::string hint = HintOfUpload(status); !hint.empty()) error.hint = hint;
  return error;
}

// Whether the coordinator sees the folder at that path. An earlier version does not know this call;
// with it a folder is one of the coordinator's machine, as before.
absl::StatusOr<v1::FindFolderResponse> AskForFolder(const std::string& path,
                                                    const std::vector<SeenFile>& seen,
                                                    Client& client) {
  v1::FindFolderRequest request;
  request.set_path(path);
  for (const SeenFile& file : seen) {
    v1::FileIdentity* identity = request.add_files();
    identity->set_name(file.name);
    identity->set_bytes(file.bytes);
    identity->set_inode(file.inode);
    identity->set_changed_ns(file.changed_ns);
  }
  absl::StatusOr<v1::FindFolderResponse> found = client.FindFolder(request);
  if (!absl::IsUnimplemented(found.status())) return found;
  v1::FindFolderResponse there;
  there.set_sight(v1::SAME_FOLDER);
  there.set_folder(path);
  return there;
}

// The model's tokens are not bytes.
std::vector<SpecViolation> CheckTokenizersNamed(const std::string& tokenizer,
                                                const v1::JobSpec& spec) {
  for (const char* name : {"", kModelTokenizer}) {
    const std::vector<std::string> fields = SourcesWithTokenizer(spec.data(), name);
    if (fields.empty()) continue;
    return {{fields.front(),
             absl::StrCat("is required: the model of this checkpoint has a tokenizer (", tokenizer,
                          "), which is not uploaded with it"),
             "set the path that the tokenizer has at each site; or start from the job's own "
             "checkpoint (--from JOB), or from an export of this one"}};
  }
  return {};
}

// What can be found here before anything is read and sent.
std::vector<SpecViolation> CompareWithSpec(FileSystem& fs, const std::string& folder,
                                           v1::JobSpec& spec) {
  std::vector<SpecViolation> violations = TakeShapeOf(folder, kUploadField, spec);
  // The tokenizer of a downloaded checkpoint is not sent along.
  const std::string kept = IsHfFolder(folder) ? "" : TokenizerSourceOf(folder);
  if (violations.empty()) {
    violations = kept.empty() ? TakeTokenizerOf(folder, spec) : CheckTokenizersNamed(kept, spec);
  }
  if (!violations.empty()) return violations;
  const absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec);
  // Else the server says what is wrong, before anything is sent.
  return resolved.ok() ? CheckInitialFolder(fs, folder, kUploadField, *resolved)
                       : std::vector<SpecViolation>();
}

std::variant<InitialSource, CliError> TakeFolderHere(const std::string& path, FileSystem& fs,
                                                     const Environment& environment,
                                                     v1::JobSpec& spec) {
  const std::vector<SpecViolation> violations = CompareWithSpec(fs, path, spec);
  if (!violations.empty()) return ErrorOfSpec(ViolationsToStatus(violations), violations);
  absl::StatusOr<FolderToSend> read = ReadFolder(fs, path, environment);
  if (!read.ok()) return ErrorOfFolder(path, read.status());
  spec.mutable_init()->set_upload(read->upload);
  return InitialSource{.folder = *std::move(read)};
}

}  // namespace

std::variant<InitialSource, CliError> FindInitialSource(const Arguments& arguments, FileSystem& fs,
                                                        Client& client,
                                                        const Environment& environment,
                                                        v1::JobSpec& spec) {
  absl::string_view from = arguments.from;
  const bool here = absl::ConsumePrefix(&from, kHere);
  const bool there = !here && absl::ConsumePrefix(&from, kThere);
  const std::string name(from);
  const bool folder_here = !there && (here ? IsFolder(name) : MeansFolder(name));
  if (here && !folder_here)
    return ErrorOfFolder(name, absl::NotFoundError("is not a local folder"));
  if (!here && !there && !folder_here && !absl::StrContains(name, '/')) {
    if (!ParseCheckpointName(name).has_value()) {
      return UsageError(absl::StrCat(
          "--from: '", name, "' is neither JOB@STEP, for example quickstart@900, nor a folder"));
    }
    spec.mutable_init()->set_checkpoint(name);
    return InitialSource();
  }
  const std::string path = WholePath(name);
  if (!folder_here) {
    spec.mutable_init()->set_folder(path);
    return InitialSource{.not_here = there ? "" : path, .hub_hint = there ? "" : HubHint(name)};
  }
  const absl::StatusOr<std::vector<SeenFile>> seen = LookAtFolder(fs, path);
  if (!here && absl::IsPermissionDenied(seen.status())) {
    // It can be a folder of the coordinator, which this user may not read.
    spec.mutable_init()->set_folder(path);
    return InitialSource();
  }
  if (!seen.ok()) return ErrorOfFolder(path, seen.status());
  if (here) return TakeFolderHere(path, fs, environment, spec);
  const absl::StatusOr<v1::FindFolderResponse> found = AskForFolder(path, *seen, client);
  const bool nobody = arguments.dry_run && !WasAnswered(found.status());
  if (!found.ok() && !nobody) return ErrorOfCall(found.status(), client.address());
  if (found.ok() && found->sight() == v1::SAME_FOLDER) {
    spec.mutable_init()->set_folder(found->folder());
    return InitialSource();
  }
  if (found.ok() && found->sight() == v1::OTHER_FOLDER) {
    return UsageError(
        absl::StrCat("--from ", path,
                     ": this machine and the coordinator (in its --import-dir) both have such a "
                     "folder, with different files"),
        absl::StrCat("choose one: --from here:", path, " or --from coordinator:", path));
  }
  return TakeFolderHere(path, fs, environment, spec);
}

}  // namespace longhaul::cli
