// Which blocks of which contributions have arrived. A contribution is one incarnation's part in one
// round; it comes in shards (a stream of one rank each) and counts when they hold every block of
// the fragment.
//
// A shard is reserved before it goes to the log and confirmed after, so that no block lies in the
// log twice under one contribution, whatever the order in which repeated streams come.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/store/job_store.h"

namespace longhaul::coordinator {

struct ContributionKey {
  int fragment = 0;
  int64_t version = 0;
  std::string pool, incarnation;
  friend bool operator<(const ContributionKey& a, const ContributionKey& b) {
    return std::tie(a.fragment, a.version, a.pool, a.incarnation) <
           std::tie(b.fragment, b.version, b.pool, b.incarnation);
  }
};

enum class Reservation {
  kTaken,     // The blocks are the caller's, until Confirm or Release.
  kRepeated,  // All of them are here already.
  kBusy,      // Another stream is bringing some of them now.
  kOverlap,   // Some are here and some are not.
};

// Of one job. Thread-safe; never blocks.
class Contributions {
 public:
  // `fragment_blocks`: of each fragment.
  explicit Contributions(std::vector<int64_t> fragment_blocks);

  // `blocks`: disjoint, ascending, within the fragment.
  Reservation Reserve(const ContributionKey& key, const std::vector<BlockRange>& blocks);
  void Confirm(const ContributionKey& key, const std::vector<BlockRange>& blocks, ShardRef shard);
  void Release(const ContributionKey& key, const std::vector<BlockRange>& blocks);

  bool Whole(const ContributionKey& key) const;
  // Of a whole contribution, in the order of arrival; empty otherwise.
  std::vector<ShardRef> Shards(const ContributionKey& key) const;

  // Forgets the contributions to rounds of the fragment up to this version.
  void Forget(int fragment, int64_t version);

 private:
  struct Range {
    int64_t end = 0;
    bool here = false;  // False: reserved.
  };
  struct Arrival {
    std::map<int64_t, Range> ranges;  // By first block.
    int64_t blocks = 0;               // Of those that are here.
    std::vector<ShardRef> shards;
  };
  bool WholeLocked(const ContributionKey& key, const Arrival& arrival) const {
    return arrival.blocks == fragment_blocks_[key.fragment];
  }

  const std::vector<int64_t> fragment_blocks_;
  mutable absl::Mutex mutex_;
  std::map<ContributionKey, Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator
