#include "coordinator/store/log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/store/fatal.h"

namespace longhaul {
namespace {

// Smaller frames are left to the sync.
constexpr int64_t kWriteBehindBytesMin = 64 << 10;

absl::string_view AsChars(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Log::Reservation::Reservation(Reservation&& other) noexcept
    : log_(other.log_), bytes_(std::exchange(other.bytes_, 0)) {}
Log::Reservation::~Reservation() {
  if (bytes_ > 0) log_->Release(bytes_);  // a moved-from one may die under the log's lock
}

Log::Log(FileSystem* fs, std::string dir, const LogFileOptions& options, LogStart start)
    : fs_(fs),
      dir_(std::move(dir)),
      options_(options),
      files_(std::move(start.files)),
      next_file_(start.next_file),
      next_sequence_(start.next_sequence),
      durable_upto_(start.next_sequence) {}
Log::~Log() = default;

absl::Status Log::status() const {
  absl::MutexLock lock(&mutex_);
  return failed_;
}

absl::Status Log::Fail(const absl::Status& error) {
  absl::MutexLock lock(&mutex_);
  return FailLocked(error);
}

absl::Status Log::FailLocked(const absl::Status& error) {
  if (failed_.ok()) {
    const auto code =
        absl::IsDataLoss(error) ? absl::StatusCode::kDataLoss : absl::StatusCode::kInternal;
    failed_ =
        MarkFatal(absl::Status(code, absl::StrCat("the log ", dir_, " ended: ", error.message())));
  }
  return failed_;
}

void Log::Release(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  reserved_ -= bytes;
}

bool Log::Fits(int64_t bytes) const { return tail_ + bytes + reserved_ <= size_; }

absl::StatusOr<Log::Reservation> Log::Reserve(int64_t bytes) {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      LH_RETURN_IF_ERROR(failed_);
      if (Fits(bytes)) {
        reserved_ += bytes;
        return Reservation(this, bytes);
      }
    }
    LH_RETURN_IF_ERROR(MakeRoom(bytes));
  }
}

absl::StatusOr<AppendedFrame> Log::Append(FrameType type, absl::string_view meta, Pieces payload,
                                          Reservation* reservation) {
  int64_t body_bytes = meta.size();
  for (const absl::Span<const uint8_t> piece : payload) body_bytes += piece.size();
  LH_ASSIGN_OR_RETURN(const AppendedFrame frame,
                      AppendFrame(type, meta, payload, body_bytes, reservation));
  BeginSync(frame, body_bytes);
  return frame;
}

absl::StatusOr<AppendedFrame> Log::AppendFrame(FrameType type, absl::string_view meta,
                                               Pieces payload, int64_t body_bytes,
                                               Reservation* reservation) {
  Digester digester;
  digester.Update(meta);
  for (const absl::Span<const uint8_t> piece : payload) digester.Update(AsChars(piece));
  const Digest128 digest = digester.Value();
  const int64_t bytes = FrameBytes(body_bytes);
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      LH_RETURN_IF_ERROR(failed_);
      if (reservation != nullptr) {
        LH_CHECK(reservation->bytes_ >= bytes, "frame larger than its reservation");
        LH_ASSIGN_OR_RETURN(const AppendedFrame frame,
                            Write(type, meta, payload, body_bytes, digest));
        reservation->bytes_ -= bytes;
        reserved_ -= bytes;
        return frame;
      }
      if (Fits(bytes)) return Write(type, meta, payload, body_bytes, digest);
    }
    LH_RETURN_IF_ERROR(MakeRoom(bytes));
  }
}

void Log::BeginSync(const AppendedFrame& frame, int64_t body_bytes) {
  if (body_bytes < kWriteBehindBytesMin) return;
  std::shared_ptr<File> file;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = files_.find(frame.body.file);
    if (found == files_.end()) return;
    file = found->second.file;
  }
  file->WriteBehind(frame.body.offset - kFrameHeaderBytes, FrameBytes(body_bytes));
}

absl::StatusOr<AppendedFrame> Log::Write(FrameType type, absl::string_view meta, Pieces payload,
                                         int64_t body_bytes, const Digest128& body_digest) {
  const FrameHeader header = {type, next_sequence_, static_cast<uint64_t>(body_bytes),
                              durable_upto_, body_digest};
  const std::string head = absl::StrCat(EncodeFrameHeader(header, options_.salt), meta);
  File& file = *files_.at(current_).file;
  absl::Status written = file.WriteAt(tail_, head);
  int64_t offset = tail_ + head.size();
  for (const absl::Span<const uint8_t> piece : payload) {
    if (!written.ok()) break;
    written = file.WriteAt(offset, AsChars(piece));
    offset += piece.size();
  }
  // A full disk leaves a part of a frame behind the tail, where the next one overwrites it.
  if (absl::IsResourceExhausted(written)) return written;
  if (!written.ok()) return FailLocked(written);
  const AppendedFrame frame = {next_sequence_, {current_, tail_ + kFrameHeaderBytes}, body_digest};
  tail_ += FrameBytes(body_bytes);
  ++next_sequence_;
  return frame;
}

absl::Status Log::MakeRoom(int64_t bytes) {
  absl::MutexLock sync_lock(&sync_mutex_);
  absl::MutexLock lock(&mutex_);
  LH_RETURN_IF_ERROR(failed_);
  if (Fits(bytes)) return absl::OkStatus();  // another thread made room
  if (current_ != 0) {
    // What the new file's header says: every earlier frame is durable.
    if (absl::Status synced = files_.at(current_).file->SyncData(); !synced.ok()) {
      return FailLocked(synced);
    }
    durable_upto_ = next_sequence_;
  }
  // The reservations move along: the rest of the old file stays empty.
  const int64_t size = std::max(options_.file_bytes, kLogFileHeaderBytes + bytes + reserved_);
  LH_ASSIGN_OR_RETURN(LogFile file, CreateFile(next_file_, size));
  if (current_ != 0) {
    // Only to save space: recovery finds the end of the frames by itself.
    (void)files_.at(current_).file->Truncate(tail_);
  }
  current_ = next_file_++;
  files_[current_] = std::move(file);
  tail_ = kLogFileHeaderBytes;
  size_ = size;
  return absl::OkStatus();
}

absl::StatusOr<LogFile> Log::CreateFile(int64_t number, int64_t bytes) {
  const std::string path = JoinPath(dir_, LogFileName(number));
  const auto make = [&]() -> absl::StatusOr<std::shared_ptr<File>> {
    LH_ASSIGN_OR_RETURN(std::shared_ptr<File> file, fs_->Create(path));
    LH_RETURN_IF_ERROR(file->Preallocate(bytes));
    LH_RETURN_IF_ERROR(
        file->WriteAt(0, EncodeLogFileHeader({number, next_sequence_}, options_.salt)));
    return file;
  };
  absl::StatusOr<std::shared_ptr<File>> file = make();
  if (absl::IsResourceExhausted(file.status())) {
    (void)fs_->Remove(path);  // gives the space back; recovery drops a file without a header
    return file.status();
  }
  if (!file.ok()) return FailLocked(file.status());
  absl::Status synced = (*file)->SyncData();
  if (synced.ok()) synced = fs_->SyncDir(dir_);
  if (!synced.ok()) return FailLocked(synced);
  return LogFile{*std::move(file), next_sequence_};
}

absl::Status Log::Sync() {
  uint64_t wanted;
  {
    absl::MutexLock lock(&mutex_);
    wanted = next_sequence_;
  }
  absl::MutexLock sync_lock(&sync_mutex_);
  std::shared_ptr<File> file;
  uint64_t upto;
  {
    absl::MutexLock lock(&mutex_);
    LH_RETURN_IF_ERROR(failed_);
    if (durable_upto_ >= wanted) return absl::OkStatus();  // the sync before this one covered it
    file = files_.at(current_).file;
    upto = next_sequence_;
  }
  const absl::Status synced = file->SyncData();
  absl::MutexLock lock(&mutex_);
  if (!synced.ok()) return FailLocked(synced);
  durable_upto_ = std::max(durable_upto_, upto);
  return failed_;
}

absl::Status Log::Read(LogPosition position, absl::Span<uint8_t> out) const {
  std::shared_ptr<File> file;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = files_.find(position.file);
    LH_CHECK(found != files_.end(), "reads from a log file that was removed");
    file = found->second.file;
  }
  return file->ReadExactly(position.offset,
                           absl::MakeSpan(reinterpret_cast<char*>(out.data()), out.size()));
}

absl::Status Log::RemoveBefore(uint64_t sequence) {
  while (true) {
    int64_t number;
    {
      absl::MutexLock lock(&mutex_);
      LH_RETURN_IF_ERROR(failed_);
      const auto first = files_.begin();
      if (first == files_.end() || std::next(first) == files_.end()) return absl::OkStatus();
      if (std::next(first)->second.first_sequence > sequence) return absl::OkStatus();
      number = first->first;
    }
    // One name at a time, so that a crash cannot leave a gap.
    LH_RETURN_IF_ERROR(fs_->Remove(JoinPath(dir_, LogFileName(number))));
    if (absl::Status synced = fs_->SyncDir(dir_); !synced.ok()) return Fail(synced);
    absl::MutexLock lock(&mutex_);
    files_.erase(number);
  }
}

}  // namespace longhaul
