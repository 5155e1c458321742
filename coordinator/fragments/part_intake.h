// Writes one stream's verified chunks to the log of their job.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/blocks/coded_blocks.h"
#include "coordinator/fragments/contributions.h"
#include "coordinator/fragments/job_fragments.h"
#include "coordinator/store/part_check.h"

namespace longhaul::coordinator {

// A large chunk becomes a part at once, written without a copy. Chunks smaller than kPartBytesMin
// are joined first, so that no sender can make a frame of the log for every block. Memory: less
// than kPartBytesMin and a chunk. Not thread-safe; blocks on the disk.
class PartIntake {
 public:
  static constexpr int64_t kPartBytesMin = 512 << 10;

  PartIntake(std::shared_ptr<JobFragments> job, std::shared_ptr<SharedStore> store,
             ContributionKey key, double weight = 1);

  // Validates every segment and appends the blocks that have not arrived yet; the others are
  // dropped.
  //   INVALID_ARGUMENT     BAD_SEGMENT with fragment and block: NaN, Inf, padding, exponent
  //   FAILED_PRECONDITION  another version was committed meanwhile
  //   RESOURCE_EXHAUSTED   the disk is full; fatal errors of the store
  absl::Status Take(const CodedChunk& chunk);
  // Call at the end of the stream, also if it broke: appends the chunks that wait to be joined.
  // Errors as above.
  absl::Status Finish();

  const ContributionKey& key() const { return key_; }
  JobFragments& job() const { return *job_; }

 private:
  absl::Status Validate(const CodedChunk& chunk);
  absl::Status Append(const CodedChunk& chunk);
  absl::Status AppendPart(const std::vector<SegmentRef>& segments, Log::Pieces payload,
                          const std::vector<BlockRange>& blocks);
  // Copies those parts of the chunk's segments that lie in these blocks.
  absl::Status Cut(const CodedChunk& chunk, const std::vector<BlockRange>& blocks,
                   std::vector<SegmentRef>* segments, std::vector<uint8_t>* bytes) const;

  const std::shared_ptr<JobFragments> job_;
  const std::shared_ptr<SharedStore> store_;
  const ContributionKey key_;
  const double weight_;
  // The job's codec.
  const Codec& codec_;
  const SegmentBytes segment_bytes_;
  SegmentChecker checker_;
  // Small chunks, joined.
  std::vector<SegmentRef> small_segments_;
  std::vector<uint8_t> small_bytes_;
};

}  // namespace longhaul::coordinator
