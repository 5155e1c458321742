#include "coordinator/effects/loss_curve.h"

#include <utility>

namespace longhaul::coordinator {

void LossCurve::Add(int64_t step, double loss) {
  while (!points_.empty() && points_.back().step() >= step) points_.pop_back();
  if (!points_.empty() && step < points_.back().step() + stride_) return;
  v1::LossPoint& point = points_.emplace_back();
  point.set_step(step);
  point.set_loss(loss);
  if (points_.size() < kPointsMax) return;
  for (size_t i = 0; 2 * i < points_.size(); ++i) points_[i] = std::move(points_[2 * i]);
  points_.resize((points_.size() + 1) / 2);
  stride_ *= 2;
}

void LossCurve::Fill(const std::string& pool, v1::PoolCurve* message) const {
  message->set_pool(pool);
  message->mutable_points()->Add(points_.begin(), points_.end());
}

}  // namespace longhaul::coordinator
