#include "common/graph/graph_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

constexpr size_t kWriteBytes = 1 << 20;

}  // namespace

GraphWriter::GraphWriter(FileSystem* fs, std::string path)
    : fs_(fs),
      path_(std::move(path)),
      temporary_(absl::StrCat(path_, ".tmp")),
      unfinished_(std::make_unique<bool>(true)) {}

absl::StatusOr<GraphWriter> GraphWriter::Create(FileSystem* fs, const std::string& path) {
  GraphWriter writer(fs, WithoutTrailingSlashes(path));
  const absl::StatusOr<std::vector<std::string>> there = fs->List(writer.path_);
  const bool file = !there.ok() && !absl::IsNotFound(there.status());
  if (file || (there.ok() && !there->empty())) {
    writer.unfinished_ = nullptr;
    return WithHint(absl::AlreadyExistsError(absl::StrCat(writer.path_, " exists")),
                    "give another folder, or remove it first");
  }
  LH_RETURN_IF_ERROR(RemoveFolder(*fs, writer.temporary_));
  LH_RETURN_IF_ERROR(CreateDirs(*fs, writer.temporary_));
  return writer;
}

GraphWriter::~GraphWriter() {
  if (unfinished_ == nullptr) return;
  file_ = nullptr;
  RemoveFolder(*fs_, temporary_).IgnoreError();
}

absl::Status GraphWriter::Append(absl::string_view bytes) {
  if (file_ == nullptr) {
    LH_ASSIGN_OR_RETURN(file_, fs_->Create(JoinPath(temporary_, absl::StrCat(name_, ".npy"))));
    digester_ = Digester();
    // The shape is known at the end.
    waiting_ = WriteNpyHeader(type_, {0});
    written_ = 0;
  }
  digester_.Update(bytes);
  waiting_.append(bytes.data(), bytes.size());
  return waiting_.size() < kWriteBytes ? absl::OkStatus() : Flush();
}

absl::Status GraphWriter::Flush() {
  LH_RETURN_IF_ERROR(file_->WriteAt(written_, waiting_));
  const auto size = static_cast<int64_t>(waiting_.size());
  WriteBehindWholeSpans(*file_, written_, written_ + size);
  written_ += size;
  waiting_.clear();
  return absl::OkStatus();
}

absl::Status GraphWriter::EndArray(const std::vector<int64_t>& shape) {
  // An array without elements.
  if (file_ == nullptr) LH_RETURN_IF_ERROR(Append(absl::string_view()));
  LH_RETURN_IF_ERROR(Flush());
  LH_RETURN_IF_ERROR(file_->WriteAt(0, WriteNpyHeader(type_, shape)));
  LH_RETURN_IF_ERROR(file_->SyncData());
  file_ = nullptr;
  arrays_[name_] = {type_, shape, digester_.Value()};
  int64_t bytes = BytesOf(type_);
  for (const int64_t size : shape) bytes *= size;
  LH_CHECK(written_ == kNpyWrittenHeader + bytes, "the shape is that of the elements");
  return absl::OkStatus();
}

absl::StatusOr<GraphManifest> GraphWriter::Finish(GraphManifest manifest) {
  LH_CHECK(file_ == nullptr, "the last array has ended");
  manifest.arrays = arrays_;
  const std::string text = WriteGraphManifest(manifest);
  LH_RETURN_IF_ERROR(ParseGraphManifest(path_, text).status());
  LH_ASSIGN_OR_RETURN(const auto file, fs_->Create(JoinPath(temporary_, kGraphManifestFile)));
  LH_RETURN_IF_ERROR(file->Append(text));
  LH_RETURN_IF_ERROR(file->SyncData());
  LH_RETURN_IF_ERROR(fs_->SyncDir(temporary_));
  LH_RETURN_IF_ERROR(fs_->Rename(temporary_, path_));
  unfinished_ = nullptr;
  LH_RETURN_IF_ERROR(fs_->SyncDir(ParentOf(path_)));
  return manifest;
}

}  // namespace longhaul
