#include "coordinator/pool/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/random.h"

namespace longhaul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PoolOffer Cpu(std::string name, int64_t turn = 0) {
  return {.pool = std::move(name), .turn = turn};
}
PoolOffer Cuda(std::string name, int64_t turn = 0) {
  return {.pool = std::move(name), .device = PoolDevice::kCuda, .turn = turn};
}
PoolOffer Busy(PoolOffer pool, std::string job) {
  pool.busy_with = std::move(job);
  return pool;
}
// A job that has not begun. It needs `missing` pools, and takes no more.
JobDemand Waits(const std::string& name, int missing) {
  return {.job = name, .name = name, .missing_min = missing, .room = missing};
}
JobDemand Runs(const std::string& name, int live, int room) {
  return {.job = name, .name = name, .room = room, .live = live};
}
// "job:pool" for each assignment.
std::vector<std::string> Given(const Placement& placement) {
  std::vector<std::string> given;
  for (const PlacedPool& p : placement.assignments)
    given.push_back(absl::StrCat(p.job, ":", p.pool));
  return given;
}
std::vector<std::string> Kept(const Placement& placement) {
  std::vector<std::string> kept;
  for (const PlacedPool& p : placement.kept) kept.push_back(absl::StrCat(p.job, ":", p.pool));
  return kept;
}
// The sentence about the only job that lacks pools.
std::string SentenceOf(const Placement& placement) {
  if (placement.lacks.size() != 1) return absl::StrCat(placement.lacks.size(), " lacks");
  return Sentence(placement.lacks[0]);
}

TEST(PlacementTest, ALackOfTheNewerTokenizerSaysTheWayOut) {
  JobDemand job = Waits("job", 1);
  job.needs = {"data:hf-tokenizer"};
  EXPECT_EQ(SentenceOf(Place({Cpu("a")}, {job})),
            "1 pool with data:hf-tokenizer: 0 connected; 1 pool lacks data:hf-tokenizer (an "
            "earlier version; a SentencePiece model named "
            "*.model does not need it)");
}

// --- Complete sets.

TEST(PlacementTest, AJobThatNeedsThreeLeavesTwoToAJobThatNeedsTwo) {
  const Placement p = Place({Cpu("b", 0), Cpu("a", 1)}, {Waits("three", 3), Waits("two", 2)});
  EXPECT_THAT(Given(p), ElementsAre("two:a", "two:b"));
  EXPECT_EQ(SentenceOf(p), "3 pools: 2 are busy with two");
  EXPECT_EQ(p.lacks[0].job, "three");
  EXPECT_EQ(p.lacks[0].reason, LackReason::kNotConnected);
}

TEST(PlacementTest, TheOldestJobThatCanBeSatisfiedIsFirst) {
  const Placement p =
      Place({Cpu("a"), Cpu("b")}, {Waits("first", 2), Waits("second", 2), Waits("third", 1)});
  EXPECT_THAT(Given(p), ElementsAre("first:a", "first:b"));
  EXPECT_EQ(p.lacks.size(), 2);
}

TEST(PlacementTest, AJobGetsItsPoolsInTheOrderOfTheirNames) {
  JobDemand job = Waits("j", 2);
  // The third pool comes from the remaining ones, and is in order too.
  job.room = 4;
  EXPECT_THAT(Given(Place({Cpu("c", 0), Cpu("a", 1), Cpu("b", 2)}, {job})),
              ElementsAre("j:a", "j:b", "j:c"));
}

TEST(PlacementTest, AJobThatLostSomeOfItsSetTakesTheRest) {
  JobDemand job = Waits("j", 1);
  job.live = 2;
  EXPECT_THAT(Given(Place({Busy(Cpu("a"), "j"), Busy(Cpu("b"), "j"), Cpu("c")}, {job})),
              ElementsAre("j:c"));
  // Pools that the job has do not count again.
  const Placement p = Place({Busy(Cpu("a"), "j"), Busy(Cpu("b"), "j")}, {job});
  EXPECT_EQ(SentenceOf(p), "1 pool: 0 connected");
  EXPECT_EQ(p.lacks[0].reason, LackReason::kNotConnected);
}

TEST(PlacementTest, AClosedJobTakesAndLacksNothing) {
  JobDemand job = Waits("j", 1);
  job.open = false;
  const Placement p = Place({Cpu("a")}, {job});
  EXPECT_THAT(Given(p), IsEmpty());
  EXPECT_THAT(p.lacks, IsEmpty());
}

// --- What a pool must meet.

TEST(PlacementTest, ACudaJobTakesNoCpuPool) {
  JobDemand job = Waits("j", 1);
  job.device = PoolDevice::kCuda;
  EXPECT_THAT(Given(Place({Cpu("a"), Cuda("b")}, {job})), ElementsAre("j:b"));
  EXPECT_THAT(Given(Place({Cpu("a")}, {job})), IsEmpty());
}

TEST(PlacementTest, ACpuJobTakesACudaPoolOnlyIfNoOtherIsThere) {
  EXPECT_THAT(Given(Place({Cuda("a", 0), Cpu("b", 1)}, {Waits("j", 1)})), ElementsAre("j:b"));
  EXPECT_THAT(Given(Place({Cuda("a")}, {Waits("j", 1)})), ElementsAre("j:a"));
}

TEST(PlacementTest, GivesAJobOnlyPoolsThatMeetItsNeedsNamesAndExclusions) {
  const std::set<std::string> all = {"codec:e3m0", "codec:topk2"}, some = {"codec:e3m0"};
  std::vector<PoolOffer> pools = {Cpu("all"), Cpu("none"), Cpu("some")};
  pools[0].capabilities = &all;
  pools[2].capabilities = &some;
  JobDemand job = Runs("j", 1, 9);
  job.needs = {"codec:topk2", "codec:e3m0"};
  EXPECT_THAT(Given(Place(pools, {job})), ElementsAre("j:all"));
  job.needs.clear();
  EXPECT_THAT(Given(Place(pools, {job})), ElementsAre("j:all", "j:none", "j:some"));
  job.names = {"some", "all", "unknown"};
  EXPECT_THAT(Given(Place(pools, {job})), ElementsAre("j:all", "j:some"));
  job.excluded = {{"all", "why"}, {"unknown", "why"}};
  EXPECT_THAT(Given(Place(pools, {job})), ElementsAre("j:some"));
}

TEST(PlacementTest, MoreCapabilitiesThanBitsOfAWordAreCompared) {
  std::set<std::string> all;
  for (int i = 0; i < 130; ++i) all.insert(absl::StrCat("c", i));
  std::set<std::string> but_one = all;
  but_one.erase("c77");
  std::vector<PoolOffer> pools = {Cpu("all"), Cpu("but-one")};
  pools[0].capabilities = &all;
  pools[1].capabilities = &but_one;
  JobDemand job = Runs("j", 1, 9);
  job.needs.assign(all.begin(), all.end());
  EXPECT_THAT(Given(Place(pools, {job})), ElementsAre("j:all"));
}

// --- Which of those that fit.

TEST(PlacementTest, AJobPrefersPoolsThatFewerJobsCouldUse) {
  JobDemand cuda = Waits("gpu", 1);
  cuda.device = PoolDevice::kCuda;
  JobDemand named = Waits("named", 1);
  named.names = {"a"};
  // The oldest job could use all three. It takes the one that no other job needs.
  const Placement p =
      Place({Cpu("a", 0), Cuda("b", 1), Cpu("c", 2)}, {Waits("any", 1), cuda, named});
  EXPECT_THAT(Given(p), ElementsAre("any:c", "gpu:b", "named:a"));
}

TEST(PlacementTest, TheLongestIdleOfEqualPoolsIsFirst) {
  EXPECT_THAT(Given(Place({Cpu("a", 9), Cpu("b", 3), Cpu("c", 5)}, {Waits("j", 1)})),
              ElementsAre("j:b"));
}

// --- Newcomers.

TEST(PlacementTest, RemainingPoolsGoToTheJobWithTheFewestPools) {
  const Placement p = Place({Cpu("a", 0), Cpu("b", 1), Cpu("c", 2), Cpu("d", 3), Cpu("e", 4)},
                            {Runs("large", 4, 60), Runs("small", 1, 3), Waits("new", 1)});
  // `new` begins with a, and has no more room. With b, c, d `small` has its most.
  EXPECT_THAT(Given(p), ElementsAre("large:e", "small:b", "small:c", "small:d", "new:a"));
}

TEST(PlacementTest, AJobThatBeginsIsBeforeOlderJobsThatRun) {
  EXPECT_THAT(Given(Place({Cpu("a")}, {Runs("old", 1, 60), Waits("new", 1)})),
              ElementsAre("new:a"));
  // The old job cannot begin, but the pool must not stay idle for it.
  EXPECT_THAT(Given(Place({Cpu("a")}, {Runs("old", 1, 60), Waits("new", 2)})),
              ElementsAre("old:a"));
}

TEST(PlacementTest, TheOlderOfJobsWithEquallyManyPoolsIsFirst) {
  EXPECT_THAT(Given(Place({Cpu("a"), Cpu("b"), Cpu("c")}, {Runs("x", 2, 9), Runs("y", 2, 9)})),
              ElementsAre("x:a", "x:c", "y:b"));
}

// --- Keeping pools.

TEST(PlacementTest, AJobThatWaitsForLongKeepsPoolsInTurns) {
  const std::vector<PoolOffer> pools = {Cpu("a"), Cpu("b"), Busy(Cpu("c"), "other")};
  JobDemand large = Waits("large", 3);
  const JobDemand small = Waits("small", 2);
  struct Case {
    int waited_s;
    bool keeps;
    int left_s;
  };
  for (const Case& c : {Case{0, false, 60},
                        {59, false, 1},
                        {60, true, 60},
                        {119, true, 1},
                        {120, false, 120},
                        {239, false, 1},
                        {240, true, 240},
                        {480, false, 480},
                        {960, true, 960}}) {
    large.waited = absl::Seconds(c.waited_s);
    const Placement p = Place(pools, {large, small});
    // If `small` waits too, its own first turn begins in a minute.
    EXPECT_EQ(p.reconsider_in, absl::Seconds(c.keeps ? std::min(c.left_s, 60) : c.left_s))
        << c.waited_s;
    if (c.keeps) {
      EXPECT_THAT(Given(p), IsEmpty()) << c.waited_s;
      EXPECT_THAT(Kept(p), ElementsAre("large:a", "large:b")) << c.waited_s;
      ASSERT_EQ(p.lacks.size(), 2);
      EXPECT_EQ(Sentence(p.lacks[0]),
                "3 pools: 2 idle are reserved for this job; 1 is busy with other");
      EXPECT_EQ(Sentence(p.lacks[1]),
                "2 pools: 2 idle are reserved for large; 1 is busy with other");
      EXPECT_EQ(p.lacks[0].reason, LackReason::kBusy);
      EXPECT_EQ(p.lacks[1].reason, LackReason::kKept);
    } else {
      EXPECT_THAT(Given(p), ElementsAre("small:a", "small:b")) << c.waited_s;
      EXPECT_THAT(Kept(p), IsEmpty()) << c.waited_s;
    }
  }
}

TEST(PlacementTest, AJobThatTheConnectedPoolsCouldNeverSatisfyKeepsNothing) {
  JobDemand large = Waits("large", 3);
  large.waited = absl::Seconds(90);
  Placement p = Place({Cpu("a"), Cpu("b")}, {large, Waits("small", 2)});
  EXPECT_THAT(Given(p), ElementsAre("small:a", "small:b"));
  EXPECT_EQ(p.reconsider_in, absl::InfiniteDuration());
  // Pools that the job has already do not count.
  JobDemand half = Waits("half", 2);
  half.live = 1;
  half.waited = absl::Seconds(90);
  p = Place({Cpu("a"), Busy(Cpu("b"), "half")}, {half, Waits("small", 1)});
  EXPECT_THAT(Given(p), ElementsAre("small:a"));
  // Nor do pools that are set aside.
  large.excluded = {{"c", "no data"}};
  p = Place({Cpu("a"), Cpu("b"), Busy(Cpu("c"), "x")}, {large, Waits("small", 2)});
  EXPECT_THAT(Given(p), ElementsAre("small:a", "small:b"));
}

TEST(PlacementTest, OnlyPoolsThatTheJobCouldUseAreKept) {
  JobDemand large = Waits("large", 2);
  large.device = PoolDevice::kCuda;
  large.waited = absl::Seconds(90);
  const Placement p = Place({Cpu("a"), Cuda("b"), Busy(Cuda("c"), "x")},
                            {large, Runs("runs", 1, 9), Waits("small", 2)});
  EXPECT_THAT(Given(p), ElementsAre("runs:a"));
  EXPECT_THAT(Kept(p), ElementsAre("large:b"));
}

TEST(PlacementTest, AnEndlessWaitIsATurnToo) {
  JobDemand large = Waits("large", 2);
  large.waited = absl::InfiniteDuration();
  EXPECT_EQ(Place({Cpu("a"), Busy(Cpu("b"), "x")}, {large}).reconsider_in,
            absl::InfiniteDuration());
}

// Younger jobs of one pool come without end, and each works for `length`. Returns when the job that
// needs all pools begins.
std::optional<int> BeginsAfter(int pools, int length, int until) {
  std::vector<PoolOffer> offers;
  std::vector<int> free_at;
  for (int i = 0; i < pools; ++i) {
    offers.push_back(Busy(Cpu(absl::StrCat("p", i)), "before"));
    // Pools become free one by one.
    free_at.push_back(1 + i * length / pools);
  }
  for (int now = 0; now < until; ++now) {
    for (int i = 0; i < pools; ++i) {
      if (free_at[i] == now) offers[i].busy_with.clear();
    }
    std::vector<JobDemand> jobs = {Waits("large", pools)};
    jobs[0].waited = absl::Seconds(now);
    for (int i = 0; i < pools; ++i) jobs.push_back(Waits(absl::StrFormat("s%d-%d", now, i), 1));
    for (const PlacedPool& placed : Place(offers, jobs).assignments) {
      if (placed.job == "large") return now;
      for (int i = 0; i < pools; ++i) {
        if (offers[i].pool != placed.pool) continue;
        offers[i].busy_with = placed.job;
        free_at[i] = now + length;
      }
    }
  }
  return std::nullopt;
}

TEST(PlacementTest, ALargeJobDoesNotStarveBehindAStreamOfSmallOnes) {
  EXPECT_THAT(BeginsAfter(4, 40, 1000), testing::Optional(testing::Le(60 + 40)));
  EXPECT_THAT(BeginsAfter(4, 100, 1000), testing::Optional(testing::Le(240 + 100)));
  EXPECT_THAT(BeginsAfter(3, 900, 10000), testing::Optional(testing::Le(960 + 900)));
}

// --- Words.

TEST(PlacementTest, SaysThatNoPoolHasTheDevice) {
  JobDemand job = Waits("j", 2);
  job.device = PoolDevice::kCuda;
  EXPECT_EQ(SentenceOf(Place({Busy(Cpu("a"), "quickstart"), Busy(Cpu("b"), "quickstart")}, {job})),
            "2 cuda pools: 0 connected; 2 cpu pools are busy with quickstart");
  EXPECT_EQ(SentenceOf(Place({Cpu("a"), Cuda("b")}, {job})),
            "2 cuda pools: 1 idle, too few: other jobs may use it; 1 cpu pool is idle");
}

TEST(PlacementTest, SaysThatTooFewAreIdle) {
  EXPECT_EQ(SentenceOf(Place({Cpu("a"), Cpu("b")}, {Waits("j", 3)})),
            "3 pools: 2 idle, too few: other jobs may use them");
  const Placement p = Place({Cpu("a"), Busy(Cpu("b"), "x"), Busy(Cpu("c"), "y"),
                             Busy(Cpu("d"), "y"), Busy(Cpu("e"), "z"), Busy(Cpu("f"), "w")},
                            {Waits("j", 3)});
  EXPECT_EQ(SentenceOf(p),
            "3 pools: 1 idle, too few: other jobs may use it; 5 are busy with y, w, x and 1 "
            "more");
  EXPECT_EQ(p.lacks[0].reason, LackReason::kBusy);
  EXPECT_EQ(SentenceOf(Place({}, {Waits("j", 1)})), "1 pool: 0 connected");
}

TEST(PlacementTest, SaysWhichNamedPoolsAreAbsent) {
  JobDemand job = Waits("j", 1);
  job.names = {"site-x"};
  EXPECT_EQ(SentenceOf(Place({Cpu("a")}, {job})), "pool site-x (named by the job): not connected");
  EXPECT_EQ(SentenceOf(Place({Busy(Cpu("site-x"), "y")}, {job})),
            "pool site-x (named by the job): 1 is busy with y");
  job = Waits("j", 2);
  job.names = {"a", "s1", "s2", "s3", "s4"};
  EXPECT_EQ(SentenceOf(Place({Cpu("a")}, {job})),
            "2 pools out of a, s1, s2 and 2 more (named by the job): 1 idle, too few: other jobs "
            "may use it; not connected: s1, s2, s3 and 1 more");
}

TEST(PlacementTest, SaysWhichCapabilitiesPoolsLack) {
  const std::set<std::string> some = {"codec:e3m0"};
  std::vector<PoolOffer> pools = {Cpu("a"), Cpu("b"), Cpu("c")};
  pools[0].capabilities = &some;
  pools[2].capabilities = &some;
  JobDemand job = Waits("j", 1);
  job.needs = {"codec:e3m0", "codec:topk2"};
  EXPECT_EQ(SentenceOf(Place(pools, {job})),
            "1 pool with codec:e3m0, codec:topk2: 0 connected; 1 pool lacks codec:e3m0; 3 pools "
            "lack codec:topk2");
}

TEST(PlacementTest, SaysWhichPoolsAreSetAsideAndWhy) {
  JobDemand job = Waits("j", 2);
  job.excluded = {{"site-b", "data.text.path: no such file, again in 40 s"}, {"gone", "why"}};
  const Placement p = Place({Cpu("site-a"), Cpu("site-b")}, {job});
  EXPECT_EQ(SentenceOf(p),
            "2 pools: 1 idle, too few: other jobs may use it; site-b set aside: "
            "data.text.path: no such file, again in 40 s");
  EXPECT_EQ(p.lacks[0].reason, LackReason::kSetAside);
}

TEST(PlacementTest, ASentenceIsBounded) {
  std::vector<PoolOffer> pools;
  JobDemand job = Waits("j", 2000);
  JobDemand keeper = Waits("keeper", 2000);
  keeper.waited = absl::Seconds(90);
  const auto name = [](std::string_view kind, int i) {
    return absl::StrFormat("%s%060d", kind, i);
  };
  for (int i = 0; i < 40; ++i) job.needs.push_back(name("need", i));
  const std::set<std::string> all(job.needs.begin(), job.needs.end());
  for (int i = 0; i < 3000; ++i) {
    PoolOffer pool = i % 3 == 0 ? Cpu(name("p", i)) : Cuda(name("p", i));
    if (i % 5 != 0) pool.capabilities = &all;
    if (i % 4 != 0) pool.busy_with = name("b", i % 300);
    if (i % 7 == 0) job.excluded[pool.pool] = std::string(200, 'x');
    job.names.push_back(pool.pool);
    job.names.push_back(name("absent", i));
    pools.push_back(std::move(pool));
  }
  job.device = PoolDevice::kCuda;
  const Placement p = Place(pools, {keeper, job});
  ASSERT_EQ(p.lacks.size(), 2);
  EXPECT_LE(Sentence(p.lacks[1]).size(), 2500) << Sentence(p.lacks[1]);
}

// --- Random inputs.

struct Scene {
  std::vector<std::set<std::string>> capabilities;
  std::vector<PoolOffer> pools;
  std::vector<JobDemand> jobs;
};

Scene RandomScene(Random& random) {
  Scene scene;
  const auto chance = [&](int percent) {
    return random.Below(100) < static_cast<uint64_t>(percent);
  };
  const std::vector<std::string> known = {"codec:a", "codec:b", "model:x", "model:y"};
  for (int i = 0; i < 3; ++i) {
    std::set<std::string> set;
    for (const std::string& name : known) {
      if (chance(75)) set.insert(name);
    }
    scene.capabilities.push_back(std::move(set));
  }
  const int pools = static_cast<int>(random.Below(24)), jobs = static_cast<int>(random.Below(10));
  for (int i = 0; i < pools; ++i) {
    PoolOffer pool = chance(50) ? Cpu(absl::StrCat("p", i)) : Cuda(absl::StrCat("p", i));
    pool.turn = static_cast<int64_t>(random.Below(8));
    if (chance(85)) pool.capabilities = &scene.capabilities[random.Below(3)];
    if (chance(40)) pool.busy_with = absl::StrCat("j", random.Below(12));
    scene.pools.push_back(std::move(pool));
  }
  for (int i = 0; i < jobs; ++i) {
    const int missing = chance(60) ? static_cast<int>(1 + random.Below(5)) : 0;
    JobDemand job = Waits(absl::StrCat("j", i), missing);
    job.room += static_cast<int>(random.Below(4));
    job.live = static_cast<int>(random.Below(4));
    job.open = chance(90);
    job.waited = absl::Seconds(static_cast<int64_t>(random.Below(500)));
    if (chance(30)) job.device = PoolDevice::kCuda;
    for (const std::string& name : known) {
      if (chance(10)) job.needs.push_back(name);
    }
    if (chance(30)) {
      for (int n = 0; n < 30; n += 2) job.names.push_back(absl::StrCat("p", n));
    }
    for (int n = 0; n < pools; ++n) {
      if (chance(8)) job.excluded[absl::StrCat("p", n)] = "why";
    }
    scene.jobs.push_back(std::move(job));
  }
  return scene;
}

bool Could(const PoolOffer& pool, const JobDemand& job) {
  if (job.device == PoolDevice::kCuda && pool.device == PoolDevice::kCpu) return false;
  for (const std::string& need : job.needs) {
    if (pool.capabilities == nullptr || !pool.capabilities->contains(need)) return false;
  }
  if (!job.names.empty() && std::ranges::find(job.names, pool.pool) == job.names.end())
    return false;
  return !job.excluded.contains(pool.pool);
}

void CheckRules(const Scene& scene, const Placement& p) {
  std::set<std::string> used;
  std::map<std::string, int> given;
  std::string before;
  std::map<std::string, const PoolOffer*> pools;
  std::map<std::string, const JobDemand*> jobs;
  for (const PoolOffer& pool : scene.pools) pools[pool.pool] = &pool;
  for (const JobDemand& job : scene.jobs) jobs[job.job] = &job;
  std::set<std::string> kept;
  for (const PlacedPool& placed : p.kept) {
    EXPECT_TRUE(used.insert(placed.pool).second) << placed.pool << " is kept twice";
    EXPECT_TRUE(Could(*pools.at(placed.pool), *jobs.at(placed.job)));
    EXPECT_TRUE(pools.at(placed.pool)->busy_with.empty());
    EXPECT_GE(jobs.at(placed.job)->waited, absl::Minutes(1));
    kept.insert(placed.pool);
  }
  for (const PlacedPool& placed : p.assignments) {
    EXPECT_TRUE(used.insert(placed.pool).second) << placed.pool << " is given twice, or kept";
    EXPECT_TRUE(Could(*pools.at(placed.pool), *jobs.at(placed.job)));
    EXPECT_TRUE(pools.at(placed.pool)->busy_with.empty());
    ++given[placed.job];
  }
  for (size_t i = 1; i < p.assignments.size(); ++i) {
    if (p.assignments[i - 1].job != p.assignments[i].job) continue;
    EXPECT_LT(p.assignments[i - 1].pool, p.assignments[i].pool);
  }
  size_t lacks = 0;
  for (const JobDemand& job : scene.jobs) {
    const int got = given[job.job];
    EXPECT_LE(got, job.open ? job.room : 0);
    const bool begins = got >= job.missing_min;
    EXPECT_TRUE(got == 0 || begins) << job.job << " holds an incomplete set";
    int left = 0;
    for (const PoolOffer& pool : scene.pools) {
      left += pool.busy_with.empty() && !used.contains(pool.pool) && Could(pool, job) ? 1 : 0;
    }
    if (!job.open || got == job.room) continue;
    if (begins) {
      EXPECT_EQ(left, 0) << job.job << " has room, and a pool is left";
      continue;
    }
    EXPECT_LT(left, job.missing_min) << job.job << " could begin";
    ASSERT_LT(lacks, p.lacks.size());
    EXPECT_EQ(p.lacks[lacks].job, job.job);
    EXPECT_EQ(p.lacks[lacks].idle, left);
    ++lacks;
  }
  EXPECT_EQ(lacks, p.lacks.size());
}

TEST(PlacementTest, RandomInputsKeepTheRules) {
  Random random(/*key=*/7);
  int begun = 0, lacking = 0, kept = 0;
  for (int i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    const Scene scene = RandomScene(random);
    const Placement p = Place(scene.pools, scene.jobs);
    CheckRules(scene, p);
    begun += p.assignments.empty() ? 0 : 1;
    lacking += p.lacks.empty() ? 0 : 1;
    kept += p.kept.empty() ? 0 : 1;
  }
  // There are enough interesting cases in the inputs.
  EXPECT_GT(begun, 1000);
  EXPECT_GT(lacking, 1000);
  EXPECT_GT(kept, 100);
}

TEST(PlacementTest, TheOrderOfThePoolsDoesNotMatter) {
  Random random(/*key=*/8);
  for (int i = 0; i < 500 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(i);
    Scene scene = RandomScene(random);
    const Placement p = Place(scene.pools, scene.jobs);
    for (size_t n = scene.pools.size(); n > 1; --n) {
      std::swap(scene.pools[n - 1], scene.pools[random.Below(n)]);
    }
    // Equal sets at other addresses change nothing.
    const std::vector<std::set<std::string>> copies = scene.capabilities;
    for (PoolOffer& pool : scene.pools) {
      if (pool.capabilities == nullptr) continue;
      pool.capabilities = &copies[pool.capabilities - scene.capabilities.data()];
    }
    const Placement q = Place(scene.pools, scene.jobs);
    EXPECT_EQ(Given(p), Given(q));
    EXPECT_EQ(Kept(p), Kept(q));
    EXPECT_EQ(p.reconsider_in, q.reconsider_in);
    ASSERT_EQ(p.lacks.size(), q.lacks.size());
    for (size_t n = 0; n < p.lacks.size(); ++n)
      EXPECT_EQ(Sentence(p.lacks[n]), Sentence(q.lacks[n]));
  }
}

}  // namespace
}  // namespace longhaul
