#include "worker/data/megatron_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/data/megatron_index.h"

namespace longhaul {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
constexpr int64_t kSequenceTokensMax = 1 << 30;  // A longer document gets several.

// FAILED_PRECONDITION would be read as a missing device, RESOURCE_EXHAUSTED as missing memory.
absl::Status FailedWrite(const std::string& path, int error) {
  return absl::InternalError(
      absl::StrCat("writing ", path, ": ", absl::ErrnoToStatus(error, "").message(),
                   error == ENOSPC ? " (the disk of the worker's --work-dir is full)" : ""));
}

absl::StatusOr<int> CreateFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FailedWrite(path, errno);
  return fd;
}

absl::Status WriteBytes(int fd, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailedWrite(path, errno);
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

template <typename Word>
void AppendBytes(std::string& bytes, Word word) {
  bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MegatronWriter>> MegatronWriter::Create(const std::string& prefix,
                                                                       int64_t vocab) {
  const int width = vocab <= 1 << 8 ? 1 : vocab <= 1 << 16 ? 2 : 4;
  unlink((prefix + ".idx").c_str());
  LH_ASSIGN_OR_RETURN(const int fd, CreateFile(prefix + ".bin.tmp"));
  return std::unique_ptr<MegatronWriter>(new MegatronWriter(prefix, width, fd));
}

MegatronWriter::MegatronWriter(std::string prefix, int width, int fd)
    : prefix_(std::move(prefix)), width_(width), fd_(fd) {}

MegatronWriter::~MegatronWriter() {
  if (fd_ >= 0) close(fd_);
  if (finished_) return;
  unlink((prefix_ + ".bin.tmp").c_str());
  unlink((prefix_ + ".idx.tmp").c_str());
}

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
  LH_RETURN_IF_ERROR(WriteBytes(fd_, prefix_ + ".bin.tmp", buffer_));
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
  const std::string temporary = prefix_ + ".idx.tmp";
  LH_ASSIGN_OR_RETURN(const int fd, CreateFile(temporary));
  const absl::Cleanup close_index = [fd] { close(fd); };
  LH_RETURN_IF_ERROR(WriteBytes(fd, temporary, index));
  if (fdatasync(fd) != 0) return FailedWrite(temporary, errno);
  if (fdatasync(fd_) != 0) return FailedWrite(prefix_ + ".bin.tmp", errno);
  for (const char* const ending : {".bin", ".idx"}) {
    const std::string name = prefix_ + ending;
    if (rename((name + ".tmp").c_str(), name.c_str()) != 0) return FailedWrite(name, errno);
  }
  finished_ = true;
  return absl::OkStatus();
}

}  // namespace longhaul
