#include "coordinator/store/log_recovery.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

constexpr int64_t kReadBytes = 1 << 20;

class LogScanner {
 public:
  LogScanner(FileSystem& fs, const std::string& dir, const LogRecoveryOptions& options)
      : fs_(fs), dir_(dir), options_(options) {}

  absl::StatusOr<RecoveredLog> Run() {
    LH_RETURN_IF_ERROR(OpenLogFiles());
    size_t index = 0;
    while (index < segments_.size() && !torn_) LH_RETURN_IF_ERROR(ScanFile(index++));
    // A segment behind the torn place never got its header: it holds nothing.
    for (size_t i = index; i < segments_.size(); ++i) LH_RETURN_IF_ERROR(Drop(segments_[i]));
    if (next_sequence_ < options_.durable_upto) {
      return absl::DataLossError(absl::StrCat(dir_, ": the log ends before frame ", next_sequence_,
                                              ", but a snapshot was made after frame ",
                                              options_.durable_upto - 1));
    }
    result_.start.next_sequence = next_sequence_;
    return std::move(result_);
  }

 private:
  struct LogFileScan {
    int64_t number = 0;
    std::string path;
    std::shared_ptr<File> file;
    int64_t size = 0;
    std::optional<LogFileHeader> header;
  };

  absl::Status OpenLogFiles() {
    LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(dir_));
    for (const std::string& name : names) {
      const std::optional<int64_t> number = LogFileNumber(name);
      if (!number.has_value()) continue;
      LogFileScan segment = {*number, JoinPath(dir_, name)};
      LH_ASSIGN_OR_RETURN(segment.file, fs_.Open(segment.path));
      // What an earlier process wrote but did not sync becomes durable now, and what its failed
      // sync lost is not read from memory: frames that are found count as durable from here on.
      LH_RETURN_IF_ERROR(segment.file->SyncData());
      segment.file->DropCache();
      LH_ASSIGN_OR_RETURN(segment.size, segment.file->Size());
      std::string bytes(std::min(segment.size, kLogFileHeaderBytes), '\0');
      LH_RETURN_IF_ERROR(segment.file->ReadExactly(0, absl::MakeSpan(bytes)));
      segment.header = DecodeLogFileHeader(bytes, options_.salt);
      if (segment.header.has_value() && segment.header->number != *number) segment.header.reset();
      segments_.push_back(std::move(segment));
    }
    std::sort(segments_.begin(), segments_.end(),
              [](const LogFileScan& a, const LogFileScan& b) { return a.number < b.number; });
    if (!segments_.empty()) {
      result_.start.next_file = segments_.back().number + 1;
      if (segments_[0].header.has_value()) next_sequence_ = segments_[0].header->first_sequence;
    }
    return absl::OkStatus();
  }

  // Reads the frames of a segment that check. Sets torn_ if the log ends in it.
  absl::Status ScanFile(size_t index) {
    LogFileScan& segment = segments_[index];
    const LogFileHeader* header = segment.header.has_value() ? &*segment.header : nullptr;
    if (header == nullptr || header->first_sequence != next_sequence_) {
      LH_RETURN_IF_ERROR(EndAt(index, 0));
      return Drop(segment);
    }
    int64_t offset = kLogFileHeaderBytes;
    while (true) {
      LH_ASSIGN_OR_RETURN(const std::optional<FrameHeader> frame, CheckFrame(segment, offset));
      if (!frame.has_value()) break;
      const int64_t body = frame->body_bytes;
      result_.frames.push_back({frame->type,
                                frame->sequence,
                                {segment.number, offset + kFrameHeaderBytes},
                                body,
                                frame->body_digest});
      offset += FrameBytes(body);
      ++next_sequence_;
    }
    result_.start.files[segment.number] = {segment.file, header->first_sequence};
    LH_ASSIGN_OR_RETURN(const bool goes_on, GoesOnBehind(index, offset));
    if (goes_on) return absl::OkStatus();
    LH_RETURN_IF_ERROR(EndAt(index, offset));
    return CutOff(segment, offset);
  }

  // Whether the log may go on in the next segment: that one begins with the next frame, or it has
  // no header to tell and here is nothing more (then the next segment is to be judged).
  absl::StatusOr<bool> GoesOnBehind(size_t index, int64_t offset) {
    if (index + 1 == segments_.size()) return false;
    const std::optional<LogFileHeader>& next = segments_[index + 1].header;
    if (next.has_value()) return next->first_sequence == next_sequence_;
    LH_ASSIGN_OR_RETURN(const bool more, HasBytesBehind(segments_[index], offset));
    return !more;
  }

  // The frame at `offset`, or nothing if what is there is not the next frame, whole.
  absl::StatusOr<std::optional<FrameHeader>> CheckFrame(const LogFileScan& segment, int64_t offset) {
    LH_ASSIGN_OR_RETURN(const std::optional<FrameHeader> header, ReadHeader(segment, offset));
    if (!header.has_value() || header->sequence != next_sequence_) return std::nullopt;
    const int64_t body = offset + kFrameHeaderBytes;
    if (header->body_bytes > static_cast<uint64_t>(segment.size - body)) return std::nullopt;
    Digester digester;
    std::string buffer;
    for (int64_t done = 0, bytes = header->body_bytes; done < bytes;) {
      buffer.resize(std::min(kReadBytes, bytes - done));
      LH_RETURN_IF_ERROR(segment.file->ReadExactly(body + done, absl::MakeSpan(buffer)));
      digester.Update(buffer);
      done += buffer.size();
    }
    if (digester.Value() != header->body_digest) return std::nullopt;
    return header;
  }

  absl::StatusOr<std::optional<FrameHeader>> ReadHeader(const LogFileScan& segment, int64_t offset) {
    if (segment.size - offset < kFrameHeaderBytes) return std::nullopt;
    std::string bytes(kFrameHeaderBytes, '\0');
    LH_RETURN_IF_ERROR(segment.file->ReadExactly(offset, absl::MakeSpan(bytes)));
    return DecodeFrameHeader(bytes, options_.salt);
  }

  // The log ends before frame next_sequence_, at `offset` of a segment. DATA_LOSS if anything shows
  // that this frame was durable once.
  absl::Status EndAt(size_t index, int64_t offset) {
    torn_ = true;
    const LogFileScan& segment = segments_[index];
    uint64_t durable_upto = options_.durable_upto;
    for (size_t i = index; i < segments_.size(); ++i) {
      if (segments_[i].header.has_value()) {
        durable_upto = std::max(durable_upto, segments_[i].header->first_sequence);
      }
      LH_ASSIGN_OR_RETURN(const uint64_t claimed,
                          DurableClaim(segments_[i], i == index ? offset : 0));
      durable_upto = std::max(durable_upto, claimed);
    }
    if (durable_upto <= next_sequence_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(segment.path, " is damaged at byte ", offset,
                                            ": frame ", next_sequence_,
                                            " was durable and does not check"));
  }

  // The greatest durable_upto of the frame headers at or behind `offset`. A header proves itself;
  // its body may be torn.
  absl::StatusOr<uint64_t> DurableClaim(const LogFileScan& segment, int64_t offset) {
    uint64_t durable_upto = 0;
    for (offset = std::max(offset, kLogFileHeaderBytes); offset < segment.size;
         offset += kLogAlignment) {
      LH_ASSIGN_OR_RETURN(const std::optional<FrameHeader> header, ReadHeader(segment, offset));
      if (!header.has_value()) continue;
      durable_upto = std::max(durable_upto, header->durable_upto);
      // The header of a segment was durable before any frame of it.
      if (!segment.header.has_value()) durable_upto = std::max(durable_upto, header->sequence + 1);
    }
    return durable_upto;
  }

  absl::Status CutOff(LogFileScan& segment, int64_t offset) {
    LH_ASSIGN_OR_RETURN(const bool torn, HasBytesBehind(segment, offset));
    if (torn) result_.torn_bytes += segment.size - offset;
    LH_RETURN_IF_ERROR(segment.file->Truncate(offset));
    return segment.file->SyncData();
  }

  // Whether there is more than the zeros of the preallocation.
  absl::StatusOr<bool> HasBytesBehind(const LogFileScan& segment, int64_t offset) {
    std::string buffer;
    for (; offset < segment.size; offset += buffer.size()) {
      buffer.resize(std::min(kReadBytes, segment.size - offset));
      LH_RETURN_IF_ERROR(segment.file->ReadExactly(offset, absl::MakeSpan(buffer)));
      if (buffer.find_first_not_of('\0') != std::string::npos) return true;
    }
    return false;
  }

  absl::Status Drop(const LogFileScan& segment) {
    result_.torn_bytes += segment.size;
    LH_RETURN_IF_ERROR(fs_.Remove(segment.path));
    return fs_.SyncDir(dir_);
  }

  FileSystem& fs_;
  const std::string dir_;
  const LogRecoveryOptions options_;
  std::vector<LogFileScan> segments_;
  uint64_t next_sequence_ = 1;
  bool torn_ = false;
  RecoveredLog result_;
};

}  // namespace

absl::StatusOr<RecoveredLog> RecoverLog(FileSystem& fs, const std::string& dir,
                                        const LogRecoveryOptions& options) {
  return LogScanner(fs, dir, options).Run();
}

}  // namespace longhaul
