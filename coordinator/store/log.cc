#include "coordinator/store/log.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/store/fatal.h"

namespace longhaul {
namespace {

// Only the sync writes smaller frames.
constexpr int64_t kWriteBehindBytesMin = 64 << 10;

// Frames never fill a file. So a file that was left and cut off is always shorter than it was made,
// and that shows that there was a next one.
constexpr int64_t kLastBlockBytes = kLogAlignment;

absl::string_view AsChars(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Log::Reservation::Reservation(Reservation&& other) noexcept
    : log_(other.log_), bytes_(std::exchange(other.bytes_, 0)) {}
Log::Reservation::~Reservation() {
  // The test also keeps a moved-from reservation, which may end under the log's lock, from taking
  // that lock.
  if (bytes_ > 0) log_->Release(bytes_);
}

Log::Log(FileSystem* fs, std::string dir, const LogFileOptions& options, LogStart start)
    : fs_(fs),
      dir_(std::move(dir)),
      options_(options),
      files_(std::move(start.files)),
      spare_(std::move(start.spare)),
      next_file_(start.next_file),
      next_sequence_(start.next_sequence),
      durable_upto_(start.next_sequence) {
  if (!files_.empty()) tails_[files_.rbegin()->first] = start.last_bytes;
}
Log::~Log() = default;

Log::Pin::~Pin() {
  if (log_ == nullptr) return;
  absl::MutexLock lock(&log_->mutex_);
  log_->pins_.erase(at_);
}

Log::Pin Log::PinFrom(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  return Pin(this, pins_.insert(sequence));
}

uint64_t Log::next_sequence() const {
  absl::MutexLock lock(&mutex_);
  return next_sequence_;
}

std::string Log::Describe(LogPosition position) const {
  return absl::StrCat(JoinPath(dir_, LogFileName(position.file)), " at byte ", position.offset);
}

absl::Status Log::status() const {
  absl::MutexLock lock(&mutex_);
  return failed_;
}

absl::Status Log::Fail(const absl::Status& error) {
  absl::MutexLock lock(&mutex_);
  return FailLocked(error);
}

absl::Status Log::FailIfTried(const absl::Status& result) {
  return result.ok() || absl::IsUnavailable(result) ? result : Fail(result);
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
  // Such a frame belongs to a round, and others wait for it. So nothing else is done here.
  if (reservation != nullptr) return frame;
  PrepareAhead();
  LH_RETURN_IF_ERROR(SyncLeft());
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
  // After a full disk there may be a part of a frame at the tail. The next frame overwrites it.
  if (absl::IsResourceExhausted(written)) return written;
  if (!written.ok()) return FailLocked(written);
  const AppendedFrame frame = {next_sequence_, {current_, tail_ + kFrameHeaderBytes}, body_digest};
  tail_ += FrameBytes(body_bytes);
  ++next_sequence_;
  return frame;
}

absl::Status Log::MakeRoom(int64_t bytes) {
  absl::MutexLock prepare_lock(&prepare_mutex_);
  while (true) {
    int64_t wanted;
    {
      absl::MutexLock lock(&mutex_);
      LH_RETURN_IF_ERROR(failed_);
      // Another thread made room.
      if (Fits(bytes)) return absl::OkStatus();
      // The reservations move to the new file. The rest of the old file stays empty.
      wanted = kLogFileHeaderBytes + bytes + reserved_ + kLastBlockBytes;
      if (spare_.number != 0 && spare_.bytes >= wanted) {
        SwitchToSpare();
        return absl::OkStatus();
      }
    }
    LH_RETURN_IF_ERROR(PrepareSpare(wanted));
  }
}

absl::Status Log::PrepareSpare(int64_t bytes) {
  SpareFile spare;
  int64_t number;
  {
    absl::MutexLock lock(&mutex_);
    LH_RETURN_IF_ERROR(failed_);
    spare = spare_;
    number = next_file_;
  }
  bytes = std::max(options_.file_bytes, bytes);
  if (spare.number != 0 && spare.bytes >= bytes) return absl::OkStatus();
  const absl::StatusOr<SpareFile> made = spare.number == 0
                                             ? MakeLogFile(*fs_, dir_, number, bytes, options_.salt)
                                             : GrowLogFile(spare, bytes, options_.salt);
  if (Passes(made.status())) return made.status();
  absl::MutexLock lock(&mutex_);
  if (!made.ok()) return FailLocked(made.status());
  spare_ = *made;
  next_file_ = made->number + 1;
  return absl::OkStatus();
}

void Log::PrepareAhead() {
  {
    absl::MutexLock lock(&mutex_);
    if (preparing_ || spare_.number != 0 || 2 * (tail_ + reserved_) < size_) return;
    preparing_ = true;
  }
  {
    absl::MutexLock prepare_lock(&prepare_mutex_);
    // An error that passes concerns only the call that needs the file. After any other error the
    // log has ended, and every later call says so.
    (void)PrepareSpare(options_.file_bytes);
  }
  absl::MutexLock lock(&mutex_);
  preparing_ = false;
}

void Log::SwitchToSpare() {
  if (current_ != 0) {
    tails_[current_] = tail_;
    if (durable_upto_ < next_sequence_) unsynced_.push_back(files_.at(current_).file);
  }
  current_ = spare_.number;
  size_ = spare_.bytes - kLastBlockBytes;
  tail_ = kLogFileHeaderBytes;
  files_[current_] = {std::move(spare_.file), next_sequence_};
  spare_ = {};
}

absl::Status Log::Sync() {
  uint64_t wanted;
  {
    absl::MutexLock lock(&mutex_);
    wanted = next_sequence_;
  }
  return SyncUpto(wanted);
}

absl::Status Log::SyncLeft() {
  uint64_t wanted;
  {
    absl::MutexLock lock(&mutex_);
    if (unsynced_.empty()) return absl::OkStatus();
    wanted = files_.at(current_).first_sequence;
  }
  return SyncUpto(wanted);
}

absl::Status Log::SyncUpto(uint64_t wanted) {
  absl::MutexLock sync_lock(&sync_mutex_);
  std::vector<std::shared_ptr<File>> files;
  uint64_t upto;
  {
    absl::MutexLock lock(&mutex_);
    LH_RETURN_IF_ERROR(failed_);
    // An earlier sync covered these frames.
    if (durable_upto_ >= wanted) return absl::OkStatus();
    files = std::exchange(unsynced_, {});
    const LogFile& current = files_.at(current_);
    upto = current.first_sequence;
    if (upto < wanted) {
      files.push_back(current.file);
      upto = next_sequence_;
    }
  }
  for (const std::shared_ptr<File>& file : files) {
    if (const absl::Status synced = file->SyncData(); !synced.ok()) return Fail(synced);
  }
  absl::MutexLock lock(&mutex_);
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

absl::StatusOr<std::vector<LogFrame>> Log::Frames(uint64_t from, uint64_t to) const {
  std::map<int64_t, LogFile> files;
  {
    absl::MutexLock lock(&mutex_);
    files = files_;
    to = std::min(to, next_sequence_);
  }
  std::vector<LogFrame> frames;
  for (auto it = files.begin(); it != files.end(); ++it) {
    const auto next = std::next(it);
    const uint64_t end = next == files.end() ? to : std::min(to, next->second.first_sequence);
    if (end <= from) continue;
    int64_t offset = kLogFileHeaderBytes;
    for (uint64_t sequence = it->second.first_sequence; sequence < end; ++sequence) {
      std::string bytes(kFrameHeaderBytes, '\0');
      LH_RETURN_IF_ERROR(it->second.file->ReadExactly(offset, absl::MakeSpan(bytes)));
      const std::optional<FrameHeader> header = DecodeFrameHeader(bytes, options_.salt);
      if (!header.has_value() || header->sequence != sequence) {
        return absl::DataLossError(absl::StrCat(
            Describe({it->first, offset}), ": the header of frame ", sequence, " is not valid"));
      }
      if (sequence >= from) frames.push_back(FrameAt(*header, {it->first, offset}));
      offset += FrameBytes(header->body_bytes);
    }
  }
  return frames;
}

absl::Status Log::RemoveBefore(uint64_t sequence) {
  LH_RETURN_IF_ERROR(RemoveFilesBefore(sequence));
  CutTails();
  return absl::OkStatus();
}

absl::Status Log::RemoveFilesBefore(uint64_t sequence) {
  while (true) {
    int64_t number;
    {
      absl::MutexLock lock(&mutex_);
      LH_RETURN_IF_ERROR(failed_);
      const auto first = files_.begin();
      if (first == files_.end() || std::next(first) == files_.end()) return absl::OkStatus();
      const uint64_t wanted = pins_.empty() ? sequence : std::min(sequence, *pins_.begin());
      // When the first files are gone, recovery learns from the first durable frame where the log
      // begins. So that frame must exist.
      const uint64_t next = std::next(first)->second.first_sequence;
      if (next > wanted || next >= durable_upto_) return absl::OkStatus();
      number = first->first;
    }
    // One name at a time, so that a crash cannot leave a gap.
    // An earlier call may have removed the name and had no descriptor to sync the folder with.
    const absl::Status removed = fs_->Remove(JoinPath(dir_, LogFileName(number)));
    if (!absl::IsNotFound(removed)) LH_RETURN_IF_ERROR(removed);
    LH_RETURN_IF_ERROR(FailIfTried(fs_->SyncDir(dir_)));
    absl::MutexLock lock(&mutex_);
    files_.erase(number);
    tails_.erase(number);
  }
}

void Log::CutTails() {
  std::vector<std::pair<std::shared_ptr<File>, int64_t>> tails;
  {
    absl::MutexLock lock(&mutex_);
    for (auto it = tails_.begin(); it != tails_.end();) {
      const auto next = files_.upper_bound(it->first);
      // A file that is shorter than it was made tells recovery that a later file has frames. So
      // these frames must be durable first.
      const bool durable = next != files_.end() && next->second.first_sequence < durable_upto_;
      if (durable) tails.push_back({files_.at(it->first).file, it->second});
      it = durable ? tails_.erase(it) : std::next(it);
    }
  }
  // An error is ignored, since cutting only saves space.
  for (const auto& [file, bytes] : tails) (void)file->Truncate(bytes);
}

absl::Status Log::GiveBack() {
  LH_RETURN_IF_ERROR(Sync());
  absl::MutexLock prepare_lock(&prepare_mutex_);
  SpareFile spare;
  std::shared_ptr<File> file;
  int64_t number = 0, tail = 0;
  {
    absl::MutexLock lock(&mutex_);
    LH_RETURN_IF_ERROR(failed_);
    // A round is still at work.
    if (reserved_ > 0) return absl::OkStatus();
    spare = std::exchange(spare_, {});
    if (spare.number != 0) next_file_ = spare.number;
    size_ = tail_;
    if (!files_.empty()) {
      number = files_.rbegin()->first;
      file = files_.at(number).file;
      tail = number == current_ ? tail_ : tails_.at(number);
    }
  }
  absl::Status given;
  if (spare.number != 0) {
    given = fs_->Remove(JoinPath(dir_, LogFileName(spare.number)));
    if (given.ok()) given = fs_->SyncDir(dir_);
  }
  if (given.ok() && file != nullptr) given = EndLogFile(*file, number, tail, options_.salt);
  return FailIfTried(given);
}

}  // namespace longhaul
