// Ranks as processes: one is killed in the middle of all-reduces, and every survivor notices.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/rendezvous/rendezvous_server.h"

namespace longhaul {
namespace {

int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A rank_process. Its standard output is read line by line. It is killed and reaped at the end.
class RankProcess {
 public:
  RankProcess(int rank, int size, const std::string& rendezvous) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const std::string arguments[] = {absl::StrCat(rank), absl::StrCat(size)};
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(RANK_PROCESS, RANK_PROCESS, arguments[0].c_str(), arguments[1].c_str(),
            rendezvous.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~RankProcess() {
    Kill();
    waitpid(pid_, nullptr, 0);
    fclose(output_);
  }
  RankProcess(const RankProcess&) = delete;

  void Kill() { kill(pid_, SIGKILL); }

  // Empty at the end of the output.
  std::string ReadLine() {
    char line[1024];
    return fgets(line, sizeof(line), output_) != nullptr ? line : "";
  }

 private:
  pid_t pid_;
  FILE* output_;
};

TEST(ProcessTest, EverySurvivorOfAKilledRankReturnsUnavailable) {
  int64_t worst_us = 0;
  for (const int size : {2, 3, 4, 4, 4, 4}) {
    const auto server = RendezvousServer::Start({.token = "process test"});
    ASSERT_TRUE(server.ok()) << server.status();
    ASSERT_EQ((*server)->StartGeneration(0, size), absl::OkStatus());
    std::vector<std::unique_ptr<RankProcess>> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.push_back(std::make_unique<RankProcess>(rank, size, (*server)->address()));
    }
    for (const auto& rank : ranks)
      EXPECT_EQ(rank->ReadLine(), absl::StrCat("ready ", size * (size - 1) / 2, "\n"));
    const int64_t killed_us = NowUs();
    ranks[size / 2]->Kill();
    for (int rank = 0; rank < size; ++rank) {
      if (rank == size / 2) continue;
      const std::string line = ranks[rank]->ReadLine();
      long long lost_us = 0;
      ASSERT_EQ(std::sscanf(line.c_str(), "lost %lld", &lost_us), 1) << line;
      EXPECT_TRUE(absl::StrContains(line, "UNAVAILABLE: all-reduce")) << line;
      EXPECT_TRUE(absl::StrContains(line, "lost rank")) << line;
      EXPECT_LT(lost_us - killed_us, 5'000'000);
      worst_us = std::max<int64_t>(worst_us, lost_us - killed_us);
      std::printf("%d ranks: rank %d noticed after %.1f ms: %s", size, rank,
                  (lost_us - killed_us) / 1e3, line.c_str());
    }
  }
  std::printf("worst: %.1f ms\n", worst_us / 1e3);
}

}  // namespace
}  // namespace longhaul
