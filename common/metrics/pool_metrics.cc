#include "common/metrics/pool_metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace longhaul {

PoolMetrics::PoolMetrics(MetricRegistry& registry, const std::string& prefix)
    : inner_step_(registry.Gauge(absl::StrCat(prefix, "_inner_step"), "Finished inner steps.")),
      train_loss_(registry.Gauge(absl::StrCat(prefix, "_train_loss_nats"),
                                 "Loss of the newest inner step, nats per token.")),
      tokens_(registry.Counter(absl::StrCat(prefix, "_tokens_total"), "Tokens trained on.")),
      tokens_per_second_(registry.Gauge(absl::StrCat(prefix, "_tokens_per_second"),
                                        "Tokens trained on per second, in the newest steps.")),
      seconds_(registry.Counter(
          absl::StrCat(prefix, "_training_seconds_total"),
          "Time of the training thread of rank 0: compute (forward, backward, inner optimizer), "
          "exposed_wait (waiting for a commit), sync (delta, encode, decode, merge), eval.")),
      uplink_nmse_(registry.Gauge(
          absl::StrCat(prefix, "_uplink_nmse_ratio"),
          "||x - decoded||^2 / ||x||^2 of the newest contribution; 0 if its codec is exact.")),
      error_feedback_norm_(registry.Gauge(absl::StrCat(prefix, "_error_feedback_norm"),
                                          "L2 norm of the uplink's error feedback.")),
      received_bytes_(registry.Counter(
          absl::StrCat(prefix, "_in_pool_received_bytes_total"),
          "Bytes that rank 0 received from other ranks of the pool, by use (forward, backward, "
          "gradient, refresh) and by level (pair, node, pool).")),
      in_pool_nmse_(registry.Gauge(absl::StrCat(prefix, "_in_pool_nmse_ratio"),
                                   "||x - decoded||^2 / ||x||^2 of the weights or gradients that "
                                   "the pool quantized in its newest step.")),
      skipped_steps_(
          registry.Counter(absl::StrCat(prefix, "_skipped_steps_total"),
                           "Inner steps without an update because their gradient was not finite.")),
      inner_state_step_(registry.Gauge(
          absl::StrCat(prefix, "_inner_state_step"),
          "Inner step of the optimizer state that the pool saves at its site: taken_up (its ranks "
          "started from it), saved (the newest that all ranks have).")),
      inner_state_losses_(
          registry.Counter(absl::StrCat(prefix, "_inner_state_losses_total"),
                           "Times the pool's ranks started in the middle of a job without "
                           "optimizer state, although a saved but unusable one existed.")),
      inner_state_failures_(registry.Counter(absl::StrCat(prefix, "_inner_state_failures_total"),
                                             "Failed attempts to save the optimizer state.")) {}

void PoolMetrics::Show(const std::string& job, const v1::PoolProgress& progress,
                       ShownSeries& shown) {
  const MetricLabels labels = {{kJobLabel, job}, {"pool", progress.pool()}};
  const auto with = [&](MetricLabels more) {
    more.insert(labels.begin(), labels.end());
    return more;
  };
  shown.Show(inner_step_, labels).Set(static_cast<double>(progress.inner_step()));
  shown.Show(train_loss_, labels).Set(progress.train_loss());
  RaiseTo(shown.Show(tokens_, labels), static_cast<double>(progress.tokens()));
  shown.Show(tokens_per_second_, labels).Set(progress.tokens_per_second());
  for (const auto& [activity, seconds] : {std::pair("compute", progress.compute_seconds()),
                                          {"exposed_wait", progress.exposed_wait_seconds()},
                                          {"sync", progress.sync_seconds()},
                                          {"eval", progress.eval_seconds()}}) {
    RaiseTo(shown.Show(seconds_, with({{"activity", activity}})), seconds);
  }
  RaiseTo(shown.Show(skipped_steps_, labels), static_cast<double>(progress.skipped_steps()));
  for (const auto& [what, step] : {std::pair("taken_up", progress.inner_state_taken_up_step()),
                                   {"saved", progress.inner_state_saved_step()}}) {
    if (step > 0)
      shown.Show(inner_state_step_, with({{"what", what}})).Set(static_cast<double>(step));
  }
  RaiseTo(shown.Show(inner_state_losses_, labels),
          static_cast<double>(progress.inner_state_losses()));
  RaiseTo(shown.Show(inner_state_failures_, labels),
          static_cast<double>(progress.inner_state_failures()));
  shown.Show(uplink_nmse_, labels).Set(progress.uplink_nmse());
  shown.Show(error_feedback_norm_, labels).Set(progress.error_feedback_norm());
  for (const auto& [use, bytes] : {std::pair("forward", &progress.forward()),
                                   {"backward", &progress.backward()},
                                   {"gradient", &progress.gradient()},
                                   {"refresh", &progress.refresh()}}) {
    for (const auto& [level, value] :
         {std::pair("pair", bytes->pair()), {"node", bytes->node()}, {"pool", bytes->pool()}}) {
      if (value == 0) continue;
      RaiseTo(shown.Show(received_bytes_, with({{"use", use}, {"level", level}})),
              static_cast<double>(value));
    }
  }
  for (const auto& [what, value] :
       {std::pair("weights", progress.weights_nmse()), {"gradients", progress.gradients_nmse()}}) {
    if (value > 0) shown.Show(in_pool_nmse_, with({{"what", what}})).Set(value);
  }
}

}  // namespace longhaul
