#include "worker/data/megatron_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/posix_filesystem.h"
#include "worker/data/megatron_index.h"

namespace longhaul {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
// A longer document gets several sequences.
constexpr int64_t kSequenceTokensMax = 1 << 30;

// Callers take FAILED_PRECONDITION for a missing device, and RESOURCE_EXHAUSTED for missing memory.
absl::Status FailedWrite(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InternalError(absl::StrCat(status.message(), absl::IsResourceExhausted(status)
                                                                ? " (the disk of the worker's "
                                                                  "--work-dir is full)"
                                                                : ""));
}

absl::StatusOr<NewFile> CreateFile(FileSystem* fs, std::string path) {
  absl::StatusOr<NewFile> file = NewFile::Create(fs, std::move(path));
  if (!file.ok()) return FailedWrite(file.status());
  return file;
}

template <typename Word>
void AppendBytes(std::string& bytes, Word word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MegatronWriter>> MegatronWriter::Create(const std::string& prefix,
                                                                       int64_t vocab) {
  const int width = vocab <= 1 << 8 ? 1 : vocab <= 1 << 16 ? 2 : 4;
  std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  (void)fs->Remove(prefix + ".idx");
  LH_ASSIGN_OR_RETURN(NewFile tokens, CreateFile(fs.get(), prefix + ".bin"));
  return std::unique_ptr<MegatronWriter>(
      new MegatronWriter(std::move(fs), prefix, width, std::move(tokens)));
}

MegatronWriter::MegatronWriter(std::unique_ptr<FileSystem> fs, std::string prefix, int width,
                               NewFile tokens)
    : fs_(std::move(fs)), prefix_(std::move(prefix)), width_(width), file_(std::move(tokens)) {}

absl::Status MegatronWriter::Append(absl::Span<const int32_t> tokens) {
  for (const int32_t token : tokens) buffer_.append(reinterpret_cast<const char*>(&token), width_);
  tokens_ += static_cast<int64_t>(tokens.size());
  sequence_tokens_ += static_cast<int64_t>(tokens.size());
  if (sequence_tokens_ >= kSequenceTokensMax) EndSequence();
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

void MegatronWriter::EndSequence() {
  sequences_.push_back(static_cast<int32_t>(std::exchange(sequence_tokens_, 0)));
}

absl::Status MegatronWriter::EndDocument() {
  const int64_t ended = documents_.empty() ? 0 : documents_.back();
  const bool none = static_cast<int64_t>(sequences_.size()) == ended;
  if (sequence_tokens_ > 0 || none) EndSequence();
  documents_.push_back(static_cast<int64_t>(sequences_.size()));
  return absl::OkStatus();
}

absl::Status MegatronWriter::Flush() {
  LH_RETURN_IF_ERROR(FailedWrite(file_.Append(buffer_)));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status MegatronWriter::Finish() {
  if (sequence_tokens_ > 0) LH_RETURN_IF_ERROR(EndDocument());
  LH_RETURN_IF_ERROR(Flush());
  std::string index(kMegatronMagic, kMegatronMagicBytes);
  AppendBytes(index, uint64_t{1});
  AppendBytes(index, static_cast<uint8_t>(width_ == 1 ? 1 : width_ == 2 ? 8 : 4));
  AppendBytes(index, static_cast<uint64_t>(sequences_.size()));
  AppendBytes(index, static_cast<uint64_t>(documents_.size() + 1));
  for (const int32_t size : sequences_) AppendBytes(index, size);
  int64_t begin = 0;
  for (const int32_t size : sequences_) {
    AppendBytes(index, begin);
    begin += int64_t{size} * width_;
  }
  AppendBytes(index, int64_t{0});
  for (const int64_t end : documents_) AppendBytes(index, end);
  LH_ASSIGN_OR_RETURN(NewFile idx, CreateFile(fs_.get(), prefix_ + ".idx"));
  LH_RETURN_IF_ERROR(FailedWrite(idx.Append(index)));
  LH_RETURN_IF_ERROR(FailedWrite(idx.Sync()));
  LH_RETURN_IF_ERROR(FailedWrite(file_.Publish()));
  return FailedWrite(idx.Publish());
}

}  // namespace longhaul
