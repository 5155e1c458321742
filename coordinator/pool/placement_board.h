// What one call of Place knows of the pools and jobs. Placing changes it, and the lacks of jobs are
// read from it. A detail of placement.h, whose arguments outlive it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/pool/placement.h"

namespace longhaul {

// In place of the number of a job.
inline constexpr int kNobody = -1;

// Whether a pool could do a job, or the first reason why not.
enum class Fit : uint8_t { kYes, kNotNamed, kWithoutDevice, kLacking, kSetAside };

struct BoardPool {
  const PoolOffer* offer;
  // Numbers of jobs.
  int busy_with = kNobody, given_to = kNobody, kept_for = kNobody;
  // How many jobs could use the pool.
  int uses = 0;
  // A bit for each capability that any job needs.
  const std::vector<uint64_t>* capabilities = nullptr;
  bool idle() const { return busy_with == kNobody && given_to == kNobody; }
  bool free() const { return idle() && kept_for == kNobody; }
};

struct BoardJob {
  const JobDemand* demand;
  int number;
  // By pool.
  std::vector<Fit> fit;
  // Numbers of pools.
  std::vector<int> given;
  // An index into the idle pools. No pool before it is of use to the job any more.
  size_t next = 0;
  // The job has not begun, and does not begin now.
  bool lacks = false;
  int room() const {
    return std::max(demand->room, demand->missing_min) - static_cast<int>(given.size());
  }
  int live() const { return demand->live + static_cast<int>(given.size()); }
};

struct PlacementBoard {
  // By name. A pool's number is its index.
  std::vector<BoardPool> pools;
  // The number of a pool.
  std::unordered_map<std::string_view, size_t> by_name;
  // The names of the jobs that take or have pools. A job's number is the index of its name.
  std::vector<std::string_view> job_names;
};

}  // namespace longhaul
