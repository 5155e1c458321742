// The scan of a log after the process ended: files as the log wrote them, changed, lost, or with
// names of their own. What was recovered once is recovered again, whole, and can be gone on with.
//   input: u8 frames | u8 synced | u8 durable_upto | u8 1: digests are made right |
//          for each file: u8 0 as it is, 1 gone, 2 under another name (i64), then changes
#include <memory>

#include "common/io/file_util.h"
#include "tests/fuzz/coordinator/store/file_image.h"
#include "tests/fuzz/documented.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/memory_filesystem.h"
#include "tests/unit/coordinator/store/store_testing.h"

namespace longhaul::fuzz::log_recovery_fuzz {
namespace {

constexpr LogFileOptions kOptions = {.file_bytes = 5 * kLogAlignment, .salt = 9};

void WriteLog(FileSystem& fs, int frames, int synced) {
  Log log(&fs, "", kOptions, LogStart());
  for (int i = 0; i < frames; ++i) {
    const std::string body(i * 1000 + 1, static_cast<char>('a' + i));
    LH_CHECK(log.Append(FrameType::kPart, body, {}).ok(), "memory takes a frame");
    if (i + 1 == synced) LH_CHECK(log.Sync().ok(), "memory syncs");
  }
}

void ChangeLog(FuzzInput& input, bool sealed, FileSystem& fs) {
  const absl::StatusOr<std::vector<std::string>> names = fs.List("");
  for (const std::string& name : *names) {
    const int fate = input.Choice(0, 2);
    std::string image = ReadImage(fs, JoinPath("", name));
    const std::string path = JoinPath("", fate == 2 ? LogFileName(input.Take<int64_t>()) : name);
    ChangeImage(input, &image);
    if (sealed) SealLog(kOptions.salt, &image);
    LH_CHECK(fs.Remove(JoinPath("", name)).ok(), "memory removes a file");
    if (fate != 1) WriteImage(fs, path, image);
  }
}

void CheckRecovered(FileSystem& fs, ScannedLog recovered, const LogScanOptions& options) {
  uint64_t sequence = 0;
  for (const LogFrame& frame : recovered.frames) {
    LH_CHECK(sequence == 0 || frame.sequence == sequence + 1, "frames without a gap");
    sequence = frame.sequence;
    const auto file = recovered.start.files.find(frame.body.file);
    LH_CHECK(file != recovered.start.files.end(), "a frame lies in a file");
    std::string body(frame.body_bytes, '\0');
    LH_CHECK(file->second.file->ReadExactly(frame.body.offset, absl::MakeSpan(body)).ok() &&
                 DigestOf(body) == frame.body_digest,
             "a frame is whole");
  }
  const size_t frames = recovered.frames.size();
  absl::StatusOr<ScannedLog> again = RecoverLog(fs, "", options);
  LH_CHECK(again.ok() && again->frames.size() == frames && again->leftovers.empty(),
           "what was recovered is recovered again");
  Log log(&fs, "", kOptions, std::move(again->start));
  LH_CHECK(log.Append(FrameType::kCommit, "more", {}).ok(), "the log goes on");
  LH_CHECK(log.Sync().ok(), "memory syncs");
  again = RecoverLog(fs, "", options);
  LH_CHECK(again.ok() && again->frames.size() == frames + 1, "what was added is recovered too");
}

}  // namespace

std::vector<Seed> Seeds() {
  const auto log = [](int frames, int synced, int sealed) {
    FuzzWriter seed;
    seed.Byte(frames).Byte(synced).Byte(0).Byte(sealed);
    return seed;
  };
  FuzzWriter whole = log(5, 5, 0), torn = log(6, 3, 0), lost = log(6, 6, 0), sealed = log(4, 2, 1);
  torn.Byte(0).Byte(0).Byte(0).Byte(1).Byte(0).Put(uint32_t{4200}).Byte(1);
  lost.Byte(0).Byte(0).Byte(1).Byte(0);
  sealed.Byte(0).Byte(1).Byte(1).Put(uint32_t{4096 + 32}).Put(uint64_t{5000});
  return {{"whole", whole.Take()},
          {"torn", torn.Take()},
          {"lost_segment", lost.Take()},
          {"other_size", sealed.Take()}};
}

int TestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  MemoryFileSystem fs;
  const int frames = input.Choice(0, 7), synced = input.Choice(0, 7);
  const LogScanOptions options = {.salt = kOptions.salt, .durable_upto = input.Byte() % 16u};
  const bool sealed = input.Flag();
  WriteLog(fs, frames, synced);
  ChangeLog(input, sealed, fs);
  absl::StatusOr<ScannedLog> recovered = RecoverLog(fs, "", options);
  CheckDocumented(recovered.status(),
                  {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition});
  if (recovered.ok()) CheckRecovered(fs, *std::move(recovered), options);
  return 0;
}

}  // namespace longhaul::fuzz::log_recovery_fuzz
