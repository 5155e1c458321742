// Jobs in progress: pools that joined, were admitted and hold the outer parameters. One call makes
// a whole round.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/io/digest.h"
#include "tests/integration/coordinator/coordinator_fixture.h"
#include "tests/testing/tcp.h"

namespace longhaul {

inline constexpr int kFragments = 2;

// A pool that the test drives by hand, and the outer parameters that it holds.
struct HandMember {
  HandMember(const std::string& address, const std::string& name,
             const std::string& incarnation = "0123456789abcdef")
      : name(name), pool(address, name, incarnation) {}
  const std::string name;
  HandPool pool;
  std::vector<std::vector<float>> outer = std::vector<std::vector<float>>(kFragments);
};

class ExchangeFixture : public CoordinatorFixture {
 protected:
  using Members = std::vector<std::unique_ptr<HandMember>>;

  static std::vector<float> Ramp(float first) {
    std::vector<float> values(kElements);
    for (int64_t i = 0; i < kElements; ++i) values[i] = first + 0.25f * static_cast<float>(i);
    return values;
  }
  static std::string Hex(const v1::Digest& digest) {
    return Digest128{digest.high(), digest.low()}.Hex();
  }
  static std::string Hex(const std::vector<float>& values) {
    return DigestOf(BytesOf(values)).Hex();
  }

  // The pools join the job and are admitted. The first of them seeds it.
  void Begin(const std::string& job_id, Members& members) {
    for (auto& member : members) {
      const auto joined = member->pool.Join();
      ASSERT_TRUE(joined.ok()) << joined.status();
    }
    // A job gets its pools all together. So the first pool hears of the job only when the last has
    // joined.
    for (auto& member : members) {
      const absl::Status assigned = member->pool.AwaitAssignment(job_id);
      ASSERT_TRUE(assigned.ok()) << assigned;
    }
    for (auto& member : members) {
      const auto plan = member->pool.OpenPlan(job_id);
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_EQ(plan->fragments_size(), kFragments);
      EXPECT_EQ(plan->fragments(0).version(), -1);
    }
    const auto seed = members[0]->pool.NextEvent();
    ASSERT_TRUE(seed.ok()) << seed.status();
    ASSERT_TRUE(seed->has_seed());
    for (int f = 0; f < kFragments; ++f) {
      const auto pushed =
          members[0]->pool.Push(f, 0, v1::SEED, CodecKind::kFp32, Ramp(static_cast<float>(f)));
      ASSERT_TRUE(pushed.ok()) << pushed.status();
      EXPECT_TRUE(pushed->contribution_complete());
    }
    for (auto& member : members) {
      for (int f = 0; f < kFragments; ++f) {
        const auto commit = member->pool.NextCommit();
        ASSERT_TRUE(commit.ok()) << commit.status();
        EXPECT_EQ(commit->version(), 0);
      }
      PullWhole(*member);
    }
  }

  // Submits a job that needs only these pools, and begins it.
  void SubmitAndBegin(const v1::JobSpec& spec, Members& members) {
    const auto submitted = Submit(spec);
    ASSERT_TRUE(submitted.ok()) << submitted.status();
    Begin(submitted->job().id(), members);
  }

  void PullWhole(HandMember& member) {
    for (int f = 0; f < kFragments; ++f) {
      const auto pulled = member.pool.Pull(f, -1, true, kElements);
      ASSERT_TRUE(pulled.ok()) << pulled.status();
      EXPECT_EQ(Hex(pulled->header.digest()), Hex(pulled->values));
      member.outer[f] = pulled->values;
    }
  }

  // Called when the commit has come: takes its downlink and compares what both sides hold.
  static void Merge(HandMember& member, const v1::Commit& commit) {
    const int f = commit.fragment();
    const auto pulled = member.pool.Pull(f, commit.version(), false, kElements);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    for (int64_t i = 0; i < kElements; ++i) member.outer[f][i] += pulled->values[i];
    EXPECT_EQ(Hex(member.outer[f]), Hex(commit.digest()));
    EXPECT_EQ(Hex(member.outer[f]), Hex(pulled->header.digest()));
  }

  // Every member pushes its own outer gradient. All merge the same commit.
  static void Round(Members& members, int fragment, int64_t version, v1::RoundKind kind,
                    CodecKind codec = CodecKind::kFp32) {
    for (size_t i = 0; i < members.size(); ++i) {
      const std::vector<float> delta(kElements, 0.5f * static_cast<float>(i + version));
      const auto pushed = members[i]->pool.Push(fragment, version, kind, codec, delta);
      ASSERT_TRUE(pushed.ok()) << pushed.status();
    }
    for (auto& member : members) {
      const auto commit = member->pool.NextCommit();
      ASSERT_TRUE(commit.ok()) << commit.status();
      EXPECT_EQ(commit->fragment(), fragment);
      EXPECT_EQ(commit->version(), version);
      EXPECT_EQ(commit->pools_size(), static_cast<int>(members.size()));
      Merge(*member, *commit);
    }
  }

  // The remaining rounds of Spec after version `done` of both fragments. Fragment 0 has one regular
  // round, fragment 1 two.
  static void Rounds(Members& members, int64_t done = 0, CodecKind codec = CodecKind::kFp32) {
    if (done < 1) Round(members, 1, 1, v1::OUTER, codec);
    if (done < 1) Round(members, 0, 1, v1::OUTER, codec);
    Round(members, 1, 2, v1::OUTER, codec);
    Round(members, 0, 2, v1::FINAL, codec);
    Round(members, 1, 3, v1::FINAL, codec);
  }

  // The end of a job as its pools report it: the last evaluation, and that all merged the last
  // commits.
  static void Finish(Members& members, double loss) {
    for (size_t i = 1; i < members.size(); ++i) {
      v1::HeartbeatRequest report;
      report.set_finished(true);
      ASSERT_TRUE(members[i]->pool.Heartbeat(report).ok());
    }
    Evaluate(*members[0], loss);
  }
  static void Evaluate(HandMember& member, double loss) {
    v1::HeartbeatRequest report;
    v1::Evaluation* evaluation = report.add_evaluations();
    evaluation->set_step(4);
    evaluation->set_version(3);
    evaluation->set_loss(loss);
    evaluation->set_final(true);
    report.set_finished(true);
    report.mutable_progress()->set_inner_step(4);
    report.mutable_progress()->set_tokens(1000);
    report.mutable_progress()->set_compute_seconds(3);
    report.mutable_progress()->set_exposed_wait_seconds(1);
    const auto answer = member.pool.Heartbeat(report);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->evaluations_acknowledged(), 4);
  }

  Members MakeMembers(const std::vector<std::string>& names) const {
    Members members;
    for (const std::string& name : names)
      members.push_back(std::make_unique<HandMember>(address(), name));
    return members;
  }
};

// The coordinator also serves its pages.
class PagesFixture : public ExchangeFixture {
 protected:
  coordinator::CoordinatorServerOptions Options() override {
    coordinator::CoordinatorServerOptions options = ExchangeFixture::Options();
    options.http_listen = "127.0.0.1:0";
    return options;
  }
  int HttpPort() {
    const std::string address = server_->http_address();
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
    return port;
  }
  // The unchanged answer.
  std::string Get(const std::string& path) { return HttpGet(HttpPort(), path); }
};

}  // namespace longhaul
