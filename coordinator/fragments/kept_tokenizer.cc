#include "coordinator/fragments/kept_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/hf/hf_tokenizer.h"
#include "common/io/file_util.h"
#include "common/io/new_file.h"
#include "common/io/read_only_file.h"
#include "common/io/sha256.h"
#include "coordinator/store/job_folder.h"

namespace longhaul::coordinator {
namespace {

constexpr int64_t kTokenizerPieceBytes = 1 << 20;

// config.json declares the end token if nothing else does.
std::vector<std::string> KeptFilesOf(const std::string& folder) {
  std::vector<std::string> names = TokenizerFilesOf(folder);
  names.emplace_back("config.json");
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<ReadOnlyFile> OpenBounded(const std::string& path) {
  LH_ASSIGN_OR_RETURN(ReadOnlyFile file, ReadOnlyFile::Open(path));
  if (file.size() <= kTokenizerFileBytesMax) return file;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": has ", file.size(), " bytes, expected at most ", kTokenizerFileBytesMax));
}

// take(piece) -> absl::Status gets the bytes of the file in pieces.
template <typename Take>
absl::Status ReadPieces(const ReadOnlyFile& file, Take take) {
  std::string piece;
  for (int64_t at = 0; at < file.size(); at += kTokenizerPieceBytes) {
    piece.resize(std::min(kTokenizerPieceBytes, file.size() - at));
    LH_RETURN_IF_ERROR(file.Read(at, {reinterpret_cast<uint8_t*>(piece.data()), piece.size()}));
    LH_RETURN_IF_ERROR(take(piece));
  }
  return absl::OkStatus();
}

absl::Status CopyFile(FileSystem& fs, const std::string& from, const std::string& to) {
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile source, OpenBounded(from));
  LH_ASSIGN_OR_RETURN(NewFile copy, NewFile::Create(&fs, to));
  LH_RETURN_IF_ERROR(
      ReadPieces(source, [&](const std::string& piece) { return copy.Append(piece); }));
  return copy.Publish();
}

}  // namespace

absl::Status KeepTokenizer(FileSystem& fs, const std::string& from, const std::string& digest,
                           const std::string& job_dir) {
  const std::string kept = TokenizerFolder(job_dir), temporary = NewTokenizerFolder(job_dir);
  const absl::Status found = fs.List(kept).status();
  if (!absl::IsNotFound(found)) return found;
  LH_RETURN_IF_ERROR(RemoveFolder(fs, temporary));
  LH_RETURN_IF_ERROR(fs.CreateDir(temporary));
  for (const std::string& name : KeptFilesOf(from))
    LH_RETURN_IF_ERROR(CopyFile(fs, JoinPath(from, name), JoinPath(temporary, name)));
  absl::StatusOr<std::vector<FolderFile>> files = ListTokenizer(temporary, digest);
  if (absl::IsFailedPrecondition(files.status())) {
    return absl::InvalidArgumentError(absl::StrCat(
        from, ": its tokenizer is not the one with which the job was submitted any more"));
  }
  LH_RETURN_IF_ERROR(files.status());
  LH_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(temporary, kTokenizerListFile),
                                         ListOfFiles(*std::move(files))));
  LH_RETURN_IF_ERROR(fs.Rename(temporary, kept));
  return fs.SyncDir(job_dir);
}

absl::StatusOr<std::vector<FolderFile>> ListTokenizer(const std::string& folder,
                                                      const std::string& digest) {
  LH_ASSIGN_OR_RETURN(const std::string now, DigestOfTokenizer(folder));
  if (now != digest) {
    return absl::FailedPreconditionError(
        "the tokenizer of the folder with which the job began is another one by now");
  }
  std::vector<FolderFile> files;
  for (const std::string& name : KeptFilesOf(folder)) {
    LH_ASSIGN_OR_RETURN(const ReadOnlyFile file, OpenBounded(JoinPath(folder, name)));
    Sha256 sha;
    LH_RETURN_IF_ERROR(ReadPieces(file, [&](const std::string& piece) {
      sha.Update(piece);
      return absl::OkStatus();
    }));
    files.push_back({name, file.size(), sha.Hex()});
  }
  return files;
}

absl::StatusOr<std::string> ReadTokenizer(const std::string& folder, absl::string_view name,
                                          int64_t offset, int64_t bytes_max) {
  const std::vector<std::string> names = KeptFilesOf(folder);
  if (std::find(names.begin(), names.end(), name) == names.end())
    return absl::NotFoundError("the job's tokenizer has no such file");
  LH_ASSIGN_OR_RETURN(const ReadOnlyFile file, OpenBounded(JoinPath(folder, name)));
  if (offset < 0 || offset > file.size()) {
    return absl::OutOfRangeError(
        absl::StrCat("offset ", offset, " is not within the ", file.size(), " bytes of ", name));
  }
  std::string bytes(std::min(bytes_max, file.size() - offset), '\0');
  LH_RETURN_IF_ERROR(file.Read(offset, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}));
  return bytes;
}

}  // namespace longhaul::coordinator
