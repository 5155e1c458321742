#include "coordinator/store/log_recovery.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

constexpr int64_t kReadBytes = 1 << 20;

bool IsZero(absl::string_view bytes) {
  return bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

class LogScanner {
 public:
  LogScanner(FileSystem& fs, const std::string& dir, const LogScanOptions& options)
      : fs_(fs), dir_(dir), options_(options) {}

  absl::StatusOr<ScannedLog> Run() {
    LH_RETURN_IF_ERROR(OpenFiles());
    LH_RETURN_IF_ERROR(FindBeginning());
    // The last file that has frames, and where it is read on.
    size_t last = 0;
    int64_t from = kLogFileHeaderBytes;
    Enter(0);
    while (true) {
      LH_ASSIGN_OR_RETURN(const int64_t end, ScanFile(last, from));
      LH_ASSIGN_OR_RETURN(const bool goes_on, BeginsWithNext(last + 1));
      if (goes_on) {
        Enter(++last);
        from = kLogFileHeaderBytes;
        continue;
      }
      LH_ASSIGN_OR_RETURN(const std::optional<LogPosition> after, EndOrSkip(last, end));
      if (!after.has_value()) break;
      if (after->file != files_[last].number) ++last;
      from = after->offset;
    }
    if (next_sequence_ < options_.durable_upto) {
      return absl::DataLossError(absl::StrCat(files_[last].path, " is damaged at byte ",
                                              result_.start.last_bytes,
                                              ": the log ends before "
                                              "frame ",
                                              next_sequence_,
                                              ", but a snapshot was made "
                                              "after frame ",
                                              options_.durable_upto - 1));
    }
    result_.start.next_sequence = next_sequence_;
    return std::move(result_);
  }

 private:
  struct Scanned {
    int64_t number = 0;
    std::string path;
    std::shared_ptr<File> file;
    int64_t size = 0;
    // The size with which the file was made.
    int64_t bytes = 0;
  };

  static absl::Status Damaged(const Scanned& file, int64_t offset, absl::string_view what) {
    return absl::DataLossError(absl::StrCat(file.path, " is damaged at byte ", offset, ": ", what));
  }

  absl::Status OpenFiles() {
    LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(dir_));
    for (const std::string& name : names) {
      const std::string path = JoinPath(dir_, name);
      const std::optional<int64_t> number = LogFileNumber(name);
      if (number.has_value()) {
        LH_ASSIGN_OR_RETURN(Scanned file, OpenFile(*number, path));
        files_.push_back(std::move(file));
      } else if (absl::EndsWith(name, ".tmp")) {
        result_.leftovers.push_back(path);
      } else if (absl::EndsWith(name, ".log")) {
        return absl::DataLossError(absl::StrCat(path, " is not a file of the log (at byte 0)"));
      }
    }
    if (files_.empty()) return absl::DataLossError(absl::StrCat(dir_, " has no file of the log"));
    std::sort(files_.begin(), files_.end(),
              [](const Scanned& a, const Scanned& b) { return a.number < b.number; });
    for (size_t i = 1; i < files_.size(); ++i) {
      const int64_t expected = files_[i - 1].number + 1;
      if (files_[i].number == expected) continue;
      return absl::DataLossError(absl::StrCat(JoinPath(dir_, LogFileName(expected)),
                                              " is missing, though ", files_[i].path,
                                              " is there (at byte 0)"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Scanned> OpenFile(int64_t number, const std::string& path) {
    Scanned scanned = {.number = number, .path = path};
    LH_ASSIGN_OR_RETURN(scanned.file, fs_.Open(path));
    if (!options_.read_only) {
      // Frames that are found count as durable from here on. So what an earlier process wrote but
      // did not sync is synced now. The cache is dropped, since it may hold bytes that a failed
      // sync did not write.
      LH_RETURN_IF_ERROR(scanned.file->SyncData());
      scanned.file->DropCache();
    }
    LH_ASSIGN_OR_RETURN(scanned.size, scanned.file->Size());
    std::string bytes(std::min(scanned.size, kLogFileHeaderBytes), '\0');
    LH_RETURN_IF_ERROR(scanned.file->ReadExactly(0, absl::MakeSpan(bytes)));
    LH_ASSIGN_OR_RETURN(const LogFileHeader header,
                        DecodeLogFileHeader(bytes, options_.salt, path));
    if (header.number != number) return Damaged(scanned, 16, "it is another file of the log");
    scanned.bytes = header.bytes;
    return scanned;
  }

  // If the first files were removed after snapshots, the first frame tells where the log begins.
  absl::Status FindBeginning() {
    if (files_[0].number == 1) return absl::OkStatus();
    LH_ASSIGN_OR_RETURN(const std::optional<FrameHeader> first,
                        ReadHeader(files_[0], kLogFileHeaderBytes));
    if (!first.has_value()) {
      return Damaged(files_[0], kLogFileHeaderBytes, "its first frame is not valid");
    }
    next_sequence_ = first->sequence;
    return absl::OkStatus();
  }

  // The log continues in this file.
  void Enter(size_t index) {
    result_.start.files[files_[index].number] = {files_[index].file, next_sequence_};
  }

  // Reads the valid frames of a file, in sequence. Returns where they end.
  absl::StatusOr<int64_t> ScanFile(size_t index, int64_t offset) {
    const Scanned& file = files_[index];
    while (true) {
      LH_ASSIGN_OR_RETURN(const std::optional<FrameHeader> frame, CheckFrame(file, offset));
      if (!frame.has_value()) return offset;
      result_.frames.push_back(FrameAt(*frame, {file.number, offset}));
      offset += FrameBytes(frame->body_bytes);
      ++next_sequence_;
    }
  }

  absl::StatusOr<bool> BeginsWithNext(size_t index) {
    if (index == files_.size()) return false;
    LH_ASSIGN_OR_RETURN(const std::optional<FrameHeader> first,
                        CheckFrame(files_[index], kLogFileHeaderBytes));
    return first.has_value();
  }

  // Returns the frame at `offset`, or nothing if there is no whole next frame.
  absl::StatusOr<std::optional<FrameHeader>> CheckFrame(const Scanned& file, int64_t offset) {
    LH_ASSIGN_OR_RETURN(const std::optional<FrameHeader> header, ReadHeader(file, offset));
    if (!header.has_value() || header->sequence != next_sequence_) return std::nullopt;
    const int64_t body = offset + kFrameHeaderBytes;
    if (header->body_bytes > static_cast<uint64_t>(file.size - body)) return std::nullopt;
    Digester digester;
    for (int64_t done = 0, bytes = header->body_bytes; done < bytes;) {
      buffer_.resize(std::min(kReadBytes, bytes - done));
      LH_RETURN_IF_ERROR(file.file->ReadExactly(body + done, absl::MakeSpan(buffer_)));
      digester.Update(buffer_);
      done += buffer_.size();
    }
    if (digester.Value() != header->body_digest) return std::nullopt;
    return header;
  }

  absl::StatusOr<std::optional<FrameHeader>> ReadHeader(const Scanned& file, int64_t offset) {
    if (file.size - offset < kFrameHeaderBytes) return std::nullopt;
    std::string bytes(kFrameHeaderBytes, '\0');
    LH_RETURN_IF_ERROR(file.file->ReadExactly(offset, absl::MakeSpan(bytes)));
    return DecodeFrameHeader(bytes, options_.salt);
  }

  // Ends the log there, and returns nothing. Or the next frame is a damaged part: leaves it out,
  // and returns where the one after it begins. Errors: those of EndAt.
  absl::StatusOr<std::optional<LogPosition>> EndOrSkip(size_t index, int64_t offset) {
    LH_ASSIGN_OR_RETURN(const std::optional<LogPosition> after, AfterPart(index, offset));
    if (!after.has_value()) {
      LH_RETURN_IF_ERROR(EndAt(index, offset));
      return std::nullopt;
    }
    const ScannedLog before = result_;
    const absl::Status ended = EndAt(index, offset);
    if (ended.ok()) return std::nullopt;
    if (!absl::IsDataLoss(ended)) return ended;
    result_ = before;
    if (after->file != files_[index].number) Enter(index + 1);
    result_.damaged.push_back({next_sequence_, ended});
    ++next_sequence_;
    return after;
  }

  // Where the frame after the next one begins, if the next one is a part with a good header, at the
  // beginning of the next file or at `offset`. If both have its sequence, the log went on in the
  // next file after the frame at `offset` was torn.
  absl::StatusOr<std::optional<LogPosition>> AfterPart(size_t index, int64_t offset) {
    if (!options_.leave_out_parts) return std::nullopt;
    for (const auto& [at, begin] :
         {std::pair(index + 1, kLogFileHeaderBytes), std::pair(index, offset)}) {
      if (at == files_.size()) continue;
      LH_ASSIGN_OR_RETURN(const std::optional<FrameHeader> header, ReadHeader(files_[at], begin));
      if (!header.has_value() || header->sequence != next_sequence_ ||
          header->type != FrameType::kPart ||
          header->body_bytes > static_cast<uint64_t>(files_[at].size - begin - kFrameHeaderBytes)) {
        continue;
      }
      return LogPosition{files_[at].number,
                         begin + FrameBytes(static_cast<int64_t>(header->body_bytes))};
    }
    return std::nullopt;
  }

  // Ends the log before frame next_sequence_, at `offset` of a file. DATA_LOSS if anything shows
  // that this frame was durable once.
  absl::Status EndAt(size_t index, int64_t offset) {
    const Scanned& last = files_[index];
    const std::string lost =
        absl::StrCat("frame ", next_sequence_, " was durable and is not valid");
    // A file is cut off only when the first frame of the next file is durable.
    if (last.size < last.bytes) {
      Rest next;
      if (offset == last.size && index + 1 < files_.size()) {
        LH_ASSIGN_OR_RETURN(next, ReadRest(files_[index + 1], kLogFileHeaderBytes));
      }
      if (next.used) return Damaged(files_[index + 1], kLogFileHeaderBytes, lost);
      return Damaged(last, std::min(offset, last.size),
                     absl::StrCat("it has ", last.size, " bytes and was made with ", last.bytes));
    }
    LH_ASSIGN_OR_RETURN(const Rest rest, ReadRest(last, offset));
    uint64_t durable_upto = std::max(options_.durable_upto, rest.durable_upto);
    result_.start.last_bytes = offset;
    if (rest.used) result_.torn_bytes += last.size - offset;
    LH_ASSIGN_OR_RETURN(const uint64_t claimed, MoveAside(index + 1));
    durable_upto = std::max(durable_upto, claimed);
    if (durable_upto <= next_sequence_) return absl::OkStatus();
    if (!rest.used && index + 1 < files_.size()) {
      return Damaged(files_[index + 1], kLogFileHeaderBytes, lost);
    }
    return Damaged(last, offset, lost);
  }

  // Handles the files from `index` on, which have no frame that counts: one may be the spare file,
  // others are left over. Returns up to where their frames claim that the log was durable.
  absl::StatusOr<uint64_t> MoveAside(size_t index) {
    uint64_t durable_upto = 0;
    result_.start.next_file = files_[index - 1].number + 1;
    for (size_t i = files_.size(); i-- > index;) {
      const Scanned& file = files_[i];
      if (file.size < file.bytes) {
        return Damaged(file, file.size,
                       absl::StrCat("it ends there and was made with ", file.bytes, " bytes"));
      }
      LH_ASSIGN_OR_RETURN(const Rest rest, ReadRest(file, kLogFileHeaderBytes));
      durable_upto = std::max(durable_upto, rest.durable_upto);
      if (i == index && !rest.used) {
        result_.start.spare = {file.number, file.file, file.bytes};
        ++result_.start.next_file;
      } else {
        result_.torn_bytes += rest.used ? file.size : 0;
        result_.leftovers.push_back(file.path);
      }
    }
    return durable_upto;
  }

  // What a file holds at and after a place where a frame could begin.
  struct Rest {
    // There is more than the zeros of the preallocation.
    bool used = false;
    // The greatest value in the frame headers. A header has its own digest, so it counts even if
    // its body is torn.
    uint64_t durable_upto = 0;
  };
  absl::StatusOr<Rest> ReadRest(const Scanned& file, int64_t offset) {
    Rest rest;
    for (; offset < file.size; offset += buffer_.size()) {
      buffer_.resize(std::min(kReadBytes, file.size - offset));
      LH_RETURN_IF_ERROR(file.file->ReadExactly(offset, absl::MakeSpan(buffer_)));
      if (IsZero(buffer_)) continue;
      rest.used = true;
      for (size_t at = 0; at + kFrameHeaderBytes <= buffer_.size(); at += kLogAlignment) {
        const std::optional<FrameHeader> header = DecodeFrameHeader(
            absl::string_view(buffer_).substr(at, kFrameHeaderBytes), options_.salt);
        if (header.has_value())
          rest.durable_upto = std::max(rest.durable_upto, header->durable_upto);
      }
    }
    return rest;
  }

  FileSystem& fs_;
  const std::string dir_;
  const LogScanOptions options_;
  std::vector<Scanned> files_;
  std::string buffer_;
  uint64_t next_sequence_ = 1;
  ScannedLog result_;
};

}  // namespace

absl::StatusOr<ScannedLog> ScanLog(FileSystem& fs, const std::string& dir,
                                   const LogScanOptions& options) {
  return LogScanner(fs, dir, options).Run();
}

absl::Status RemoveLeftovers(FileSystem& fs, const std::string& dir, const ScannedLog& log) {
  for (const std::string& path : log.leftovers) LH_RETURN_IF_ERROR(fs.Remove(path));
  return log.leftovers.empty() ? absl::OkStatus() : fs.SyncDir(dir);
}

}  // namespace longhaul
