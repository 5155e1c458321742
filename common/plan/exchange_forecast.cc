#include "common/plan/exchange_forecast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace longhaul::plan {
namespace {

// Periods that are simulated before those that are measured, and those. Where a link is almost fast
// enough, the queue before it grows for many periods until no overlap hides it.
constexpr int64_t kWarmUpPeriods = 64, kMeasuredPeriods = 8;

// Evaluations that come again after so many rounds. The periods that are measured are a multiple of
// a power of two, so those between are counted as shorter ones that come more often.
struct Evaluations {
  Evaluations(int64_t every, int64_t rounds_of_job) {
    constexpr uint64_t kRoundsMax = 16;
    if (every <= 0 || every > rounds_of_job) return;
    rounds =
        static_cast<int64_t>(std::min(kRoundsMax, std::bit_floor(static_cast<uint64_t>(every))));
    part = static_cast<double>(rounds) / static_cast<double>(every);
  }
  bool In(int64_t round) const { return rounds > 0 && round % rounds == 0; }

  int64_t rounds = 0;
  double part = 0;
};

struct Event {
  int64_t step = 0;
  // Merges come before the pushes of their step; with tau = 0 after them, since they are of the
  // same rounds.
  enum class Kind { kMerge, kPush, kMergeAtOnce, kEvaluate } kind = Kind::kPush;
  int fragment = 0;
  int64_t round = 0;
};

class Simulation {
 public:
  Simulation(const ExchangeSetting& setting, const std::vector<PoolRates>& pools)
      : setting_(setting),
        pools_(pools),
        count_(pools.size()),
        outer_(setting.outer_evaluation_rounds, setting.fragments.front().schedule.rounds),
        own_(setting.pool_evaluation_rounds, setting.fragments.front().schedule.rounds) {
    now_.resize(count_);
    uplink_free_.resize(count_);
    downlink_free_.resize(count_);
    shares_.resize(count_);
    before_.resize(count_);
    skipped_.resize(count_);
  }

  ExchangeForecast Run() {
    const int64_t period = setting_.fragments.front().schedule.period;
    int64_t first = 0;
    for (const ExchangedFragment& f : setting_.fragments)
      first = std::max(first, f.schedule.first_push_step + f.schedule.tau);
    const int64_t warm = std::min(setting_.steps, first + kWarmUpPeriods * period);
    const int64_t measured_periods = std::max({kMeasuredPeriods, outer_.rounds, own_.rounds});
    const int64_t end = std::min(setting_.steps, warm + measured_periods * period);
    // A short job is measured whole.
    measured_from_ = end > warm ? warm : 0;
    for (const Event& event : EventsUntil(end)) {
      ComputeUntil(event.step);
      if (event.kind == Event::Kind::kPush) {
        Push(event);
      } else if (event.kind == Event::Kind::kEvaluate) {
        Evaluate(event.round);
      } else {
        Merge(event);
      }
    }
    ComputeUntil(end);
    ExchangeForecast forecast;
    const double measured = *std::max_element(now_.begin(), now_.end()) - begun_;
    const double measured_steps = static_cast<double>(end - measured_from_);
    const double per_step = measured_steps > 0 ? measured / measured_steps : 0;
    forecast.period_seconds = per_step * static_cast<double>(period);
    forecast.seconds = *std::max_element(now_.begin(), now_.end()) +
                       per_step * static_cast<double>(setting_.steps - end);
    const double rest =
        measured_steps > 0 ? static_cast<double>(setting_.steps - end) / measured_steps : 0;
    for (size_t i = 0; i < count_; ++i) {
      TimeShares& whole = forecast.pools.emplace_back(before_[i]);
      Add(shares_[i], 1 + rest, whole);
    }
    if (setting_.final_round) FinalRound(forecast);
    for (size_t i = 0; i < count_; ++i)
      forecast.left_out.push_back(measured_steps > 0 ? skipped_[i] / measured_steps : 0);
    return forecast;
  }

 private:
  std::vector<Event> EventsUntil(int64_t end) const {
    std::vector<Event> events;
    for (int f = 0; f < static_cast<int>(setting_.fragments.size()); ++f) {
      const FragmentSchedule& schedule = setting_.fragments[f].schedule;
      const Event::Kind merge = schedule.tau > 0 ? Event::Kind::kMerge : Event::Kind::kMergeAtOnce;
      for (int64_t round = 1; round <= schedule.rounds; ++round) {
        if (schedule.PushStep(round) > end) break;
        events.push_back({schedule.PushStep(round), Event::Kind::kPush, f, round});
        if (schedule.MergeStep(round) <= end)
          events.push_back({schedule.MergeStep(round), merge, f, round});
      }
    }
    AddEvaluations(end, events);
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
      return std::tie(a.step, a.kind) < std::tie(b.step, b.kind);
    });
    return events;
  }

  // When all fragments have merged a round. At the last step training does not wait.
  void AddEvaluations(int64_t end, std::vector<Event>& events) const {
    if (outer_.rounds == 0 && own_.rounds == 0) return;
    for (int64_t round = 1;; ++round) {
      int64_t merged = 0;
      for (const ExchangedFragment& f : setting_.fragments)
        merged = std::max(merged, f.schedule.MergeStep(round));
      if (merged > end || merged >= setting_.steps) return;
      if (outer_.In(round) || own_.In(round))
        events.push_back({merged, Event::Kind::kEvaluate, 0, round});
    }
  }
  void Evaluate(int64_t round) {
    for (size_t i = 0; i < count_; ++i) {
      double part = own_.In(round) ? own_.part : 0;
      const bool turn = outer_.In(round) && round / outer_.rounds % count_ == i;
      if (turn) part += outer_.part;
      const double seconds = part * pools_[i].evaluation_seconds;
      now_[i] += seconds;
      shares_[i].evaluation += seconds;
    }
  }

  void StartMeasuring() {
    begun_ = *std::max_element(now_.begin(), now_.end());
    before_ = std::exchange(shares_, std::vector<TimeShares>(count_));
    skipped_.assign(count_, 0);
  }

  // Of what comes, events of the step `measured_from_` are not measured.
  void ComputeUntil(int64_t step) {
    if (step_ <= measured_from_ && step > measured_from_) {
      Compute(measured_from_ - step_);
      StartMeasuring();
    }
    Compute(step - step_);
  }
  void Compute(int64_t steps) {
    step_ += steps;
    for (size_t i = 0; i < count_; ++i) {
      const double seconds = static_cast<double>(steps) * pools_[i].step_seconds;
      now_[i] += seconds;
      shares_[i].compute += seconds;
    }
  }
  void Copy(size_t pool, double elements) {
    const double seconds = elements / pools_[pool].copy;
    now_[pool] += seconds;
    shares_[pool].copying += seconds;
  }
  double UpRate(size_t pool) const {
    return std::min(pools_[pool].link.up, setting_.hub_down / static_cast<double>(count_));
  }
  double DownRate(size_t pool) const {
    return std::min(pools_[pool].link.down, setting_.hub_up / static_cast<double>(count_));
  }

  // When the whole contribution is sent if the pool pushes now.
  double Sent(size_t pool, const ExchangedFragment& fragment) const {
    const double elements = static_cast<double>(fragment.elements);
    const double begin = std::max(now_[pool], uplink_free_[pool]);
    return begin + std::max(fragment.up_bytes / UpRate(pool), elements / pools_[pool].code);
  }

  void Push(const Event& event) {
    const ExchangedFragment& fragment = setting_.fragments[event.fragment];
    const double elements = static_cast<double>(fragment.elements);
    std::vector<double>& arrived = arrived_[{event.fragment, event.round}];
    if (setting_.quorum > 0) LeaveOutUntilCalled(fragment);
    for (size_t i = 0; i < count_; ++i) {
      Copy(i, elements);
      uplink_free_[i] = Sent(i, fragment);
      arrived.push_back(uplink_free_[i] + pools_[i].link.round_trip / 2);
    }
  }

  // Pools that are still at earlier steps when the quorum is there end the step that they are in,
  // and leave out those up to the push. They have been counted as computed.
  void LeaveOutUntilCalled(const ExchangedFragment& fragment) {
    std::vector<double> arrivals;
    for (size_t i = 0; i < count_; ++i)
      arrivals.push_back(Sent(i, fragment) + pools_[i].link.round_trip / 2);
    const size_t last = std::min<size_t>(setting_.quorum, count_) - 1;
    std::nth_element(arrivals.begin(), arrivals.begin() + static_cast<int64_t>(last),
                     arrivals.end());
    const double called = arrivals[last];
    for (size_t i = 0; i < count_; ++i) {
      const double told = called + pools_[i].link.round_trip / 2;
      const double late = std::floor((now_[i] - told) / pools_[i].step_seconds);
      if (late < 1) continue;
      now_[i] -= late * pools_[i].step_seconds;
      shares_[i].compute -= late * pools_[i].step_seconds;
      skipped_[i] += late;
    }
  }

  void Merge(const Event& event) {
    const ExchangedFragment& fragment = setting_.fragments[event.fragment];
    const double elements = static_cast<double>(fragment.elements);
    const auto found = arrived_.find({event.fragment, event.round});
    const std::vector<double>& arrived = found->second;
    const double all_arrived = *std::max_element(arrived.begin(), arrived.end());
    // The coordinator applies one round at a time.
    const double applied = std::max(all_arrived, coordinator_free_) + setting_.apply_seconds +
                           elements * static_cast<double>(count_) / setting_.apply;
    coordinator_free_ = applied;
    for (size_t i = 0; i < count_; ++i) {
      const LinkRates& link = pools_[i].link;
      // The commit is announced, and the pull is asked for and begins to come.
      const double begin = std::max(applied + 1.5 * link.round_trip, downlink_free_[i]);
      const double ready =
          begin + std::max(fragment.down_bytes / DownRate(i), elements / pools_[i].decode);
      downlink_free_[i] = ready;
      Wait(i, ready, arrived[i], all_arrived, applied);
      Copy(i, elements);
    }
    arrived_.erase(found);
  }

  // The pool waits until `ready`. What it waits for at a time is the part of the round that is
  // under way then.
  void Wait(size_t pool, double ready, double arrived, double all_arrived, double applied) {
    double from = now_[pool];
    if (ready <= from) return;
    TimeShares& shares = shares_[pool];
    const std::pair<double, double*> parts[] = {{arrived, &shares.uplink},
                                                {all_arrived, &shares.others},
                                                {applied, &shares.coordinator},
                                                {ready, &shares.downlink}};
    for (const auto& [end, share] : parts) {
      if (end <= from) continue;
      *share += end - from;
      from = end;
    }
    now_[pool] = ready;
  }

  static void Add(const TimeShares& shares, double times, TimeShares& sum) {
    sum.compute += times * shares.compute;
    sum.copying += times * shares.copying;
    sum.uplink += times * shares.uplink;
    sum.others += times * shares.others;
    sum.coordinator += times * shares.coordinator;
    sum.downlink += times * shares.downlink;
    sum.evaluation += times * shares.evaluation;
  }

  // All fragments, one after another in both directions.
  void FinalRound(ExchangeForecast& forecast) const {
    double up_bytes = 0, down_bytes = 0, elements = 0;
    for (const ExchangedFragment& fragment : setting_.fragments) {
      elements += static_cast<double>(fragment.elements);
      up_bytes += fragment.up_bytes;
      down_bytes += fragment.down_bytes;
    }
    const double applying = elements * static_cast<double>(count_) / setting_.apply +
                            setting_.apply_seconds * static_cast<double>(setting_.fragments.size());
    std::vector<double> arrived;
    for (size_t i = 0; i < count_; ++i)
      arrived.push_back(up_bytes / UpRate(i) + pools_[i].link.round_trip / 2);
    const double all_arrived = *std::max_element(arrived.begin(), arrived.end());
    double slowest = 0;
    for (size_t i = 0; i < count_; ++i) {
      TimeShares& shares = forecast.pools[i];
      const double down = down_bytes / DownRate(i) + 1.5 * pools_[i].link.round_trip;
      const double copying = 2 * elements / pools_[i].copy;
      shares.uplink += arrived[i];
      shares.others += all_arrived - arrived[i];
      shares.coordinator += applying;
      shares.downlink += down;
      shares.copying += copying;
      slowest = std::max(slowest, all_arrived + applying + down + copying);
    }
    forecast.seconds += slowest;
  }

  const ExchangeSetting& setting_;
  const std::vector<PoolRates>& pools_;
  const size_t count_;
  const Evaluations outer_, own_;
  int64_t step_ = 0, measured_from_ = 0;
  double begun_ = 0, coordinator_free_ = 0;
  // By pool.
  std::vector<double> now_, uplink_free_, downlink_free_, skipped_;
  // Before the measured part, and in it.
  std::vector<TimeShares> before_, shares_;
  // By fragment and round, of those under way: when the contribution of each pool arrives.
  std::map<std::pair<int, int64_t>, std::vector<double>> arrived_;
};

}  // namespace

ExchangeForecast ForecastExchange(const ExchangeSetting& setting,
                                  const std::vector<PoolRates>& pools) {
  return Simulation(setting, pools).Run();
}

}  // namespace longhaul::plan
