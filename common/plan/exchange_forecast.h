// How long pools compute and how long they wait, if they exchange fragments over given links: a
// simulation of the schedule in virtual time, with sums and maxima of the times that each resource
// takes. Pure functions; times in seconds, rates per second.
//
// A pool computes its inner steps one after another. At a fragment's push step it copies the
// fragment, codes it, and sends it, while it computes on; its uplink sends one fragment at a time.
// The coordinator applies a round when the contributions that it waits for are there. Then each
// pool pulls the downlink, one fragment at a time. At the merge step a pool waits until it has it.
// After the merges of a cycle it may evaluate, while transfers continue.
#pragma once

#include <cstdint>
#include <vector>

#include "common/schedule/schedule.h"

namespace longhaul::plan {

struct LinkRates {
  // Bytes per second. Infinite: not a limit.
  double up = 0, down = 0;
  // Of a round trip between pool and coordinator.
  double round_trip = 0;
};

struct PoolRates {
  double step_seconds = 0;
  LinkRates link;
  // Elements per second that a pool codes and decodes beside training, and copies and merges while
  // training stands still. Infinite: they cost nothing.
  double code = 0, decode = 0, copy = 0;
  // Of one evaluation, for which training stands still.
  double evaluation_seconds = 0;
};

struct ExchangedFragment {
  int64_t elements = 0;
  // Coded.
  double up_bytes = 0, down_bytes = 0;
  FragmentSchedule schedule;
};

struct ExchangeSetting {
  std::vector<ExchangedFragment> fragments;
  int64_t steps = 0;
  // One more round of each fragment after the last step, for which all pools wait.
  bool final_round = true;
  // 0: a round waits for all pools. Otherwise it is called when so many have contributed, and the
  // others end the step that they are in and contribute what they have.
  int quorum = 0;
  // The coordinator's own link, which all pools share. Bytes per second.
  double hub_up = 0, hub_down = 0;
  // Elements per second of the outer step for one contribution, and the seconds that a round takes
  // in addition.
  double apply = 0, apply_seconds = 0;
  // Rounds of all fragments between two evaluations of the outer parameters, for which pools take
  // turns, and between those that every pool makes of its own. 0: none.
  int64_t outer_evaluation_rounds = 0, pool_evaluation_rounds = 0;
};

// What a pool does with its time.
struct TimeShares {
  double compute = 0;
  // Copies and merges on the training thread.
  double copying = 0;
  // Waits, by what the pool waited for: its own contribution to be coded and sent, those of others,
  // the coordinator, its downlink.
  double uplink = 0, others = 0, coordinator = 0, downlink = 0;
  double evaluation = 0;

  double wait() const { return uplink + others + coordinator + downlink; }
  // Without evaluations.
  double all() const { return compute + copying + wait(); }
  // As the product reports it: compute / (compute + exposed wait + copying).
  double utilization() const { return all() > 0 ? compute / all() : 1; }
};

struct ExchangeForecast {
  // By pool: of the whole job, with its first rounds and the final one.
  std::vector<TimeShares> pools;
  // By pool: the share of its inner steps that it leaves out (quorum).
  std::vector<double> left_out;
  // Of one period (H steps) in the steady state.
  double period_seconds = 0;
  // Of the whole job, from the first step to the last commit.
  double seconds = 0;
};

// Requires at least one pool and one fragment, positive rates and steps.
ExchangeForecast ForecastExchange(const ExchangeSetting& setting,
                                  const std::vector<PoolRates>& pools);

}  // namespace longhaul::plan
