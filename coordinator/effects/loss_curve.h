// Losses by step, for people to look at: as many points as a page can show, however long a job is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/v1/status.pb.h"

namespace longhaul::coordinator {

// When there are too many points, every second one is dropped, and later ones are taken half as
// often. A value; not thread-safe.
class LossCurve {
 public:
  static constexpr size_t kPointsMax = 512;

  // Adds a loss. If the step is not after the last one, the pool began again: losses from that step
  // on are removed first.
  void Add(int64_t step, double loss);
  const std::vector<v1::LossPoint>& points() const { return points_; }
  // The curve of a pool, as a message.
  void Fill(const std::string& pool, v1::PoolCurve* message) const;

 private:
  std::vector<v1::LossPoint> points_;
  int64_t stride_ = 1;
};

}  // namespace longhaul::coordinator
