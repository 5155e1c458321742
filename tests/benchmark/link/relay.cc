// A long link between two network namespaces of this machine, for kernels without netem:
//   relay --netns A --netns B --mbit 1000 --rtt-ms 100 [--mtu 9000] [--queue-bytes N]
// Makes a TUN device "lh-link" in each namespace and moves IP packets between the two. Each way a
// packet waits in a FIFO that is served at the line rate, then travels for half the round trip; the
// FIFO holds at most one bandwidth-delay product (or --queue-bytes) and drops what comes on top.
// The bytes counted are those of IP packets. The endpoints are the kernel's own TCP.
//
//   device A -> [queue, rate] -> [delay] -> device B      and the same from B to A
//
// Writes "ready" to standard output when both devices are there and up; the caller gives them
// addresses. Ends on SIGTERM, SIGINT or when its parent ends, and says what it dropped; the devices
// end with it. Needs root. Exit status 77: namespaces or TUN devices are not to be had here.
//
// One thread, of real-time priority where that is allowed: a link does not slow down because its
// ends compute. Idle it sleeps; while packets are under way it wakes every 100 us: that much a
// packet may be late.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "tests/benchmark/harness/flags.h"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kNotPermitted = 77;
constexpr char kDevice[] = "lh-link";
volatile sig_atomic_t stopped = 0;

struct Link {
  double bytes_per_second = 0;
  Seconds delay{0};  // One way.
  double queue_bytes = 0;
};

[[noreturn]] void GiveUp(const std::string& what) {
  std::fprintf(stderr, "relay: %s: %s\n", what.c_str(), std::strerror(errno));
  _exit(kNotPermitted);
}

// Goes into the namespace and makes the device there; the descriptor works from anywhere.
int MakeDevice(const std::string& netns, int mtu) {
  const int space = open(("/var/run/netns/" + netns).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) GiveUp("namespace " + netns);
  close(space);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request{};
  std::strncpy(request.ifr_name, kDevice, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0) GiveUp("a TUN device");
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  // Room for bursts of the sender: the link's own queue is the relay's.
  request.ifr_qlen = 10'000;
  bool made = ioctl(control, SIOCSIFTXQLEN, &request) == 0;
  request.ifr_mtu = mtu;
  made = made && ioctl(control, SIOCSIFMTU, &request) == 0;
  request.ifr_flags = IFF_UP;
  made = made && ioctl(control, SIOCSIFFLAGS, &request) == 0;
  if (!made) GiveUp("setting up the TUN device");
  close(control);
  return device;
}

// One way: from a device's reader to the other's writer.
class Way {
 public:
  Way(const Link& link, int from, int to, int mtu)
      : link_(link), from_(from), to_(to), packet_(mtu) {}

  // Takes what the device has.
  void Receive(Clock::time_point now) {
    for (ssize_t n; (n = read(from_, packet_.data(), packet_.size())) > 0;) {
      const Seconds waiting = std::max(Seconds(0), Seconds(served_ - now));
      if (waiting.count() * link_.bytes_per_second + static_cast<double>(n) > link_.queue_bytes) {
        ++dropped_;
        continue;
      }
      const Seconds service(static_cast<double>(n) / link_.bytes_per_second);
      served_ = now + std::chrono::duration_cast<Clock::duration>(waiting + service);
      under_way_.push_back({served_ + std::chrono::duration_cast<Clock::duration>(link_.delay),
                            {packet_.begin(), packet_.begin() + n}});
      ++passed_;
    }
  }

  // Hands over what has arrived.
  void Deliver(Clock::time_point now) {
    for (; !under_way_.empty() && under_way_.front().due <= now; under_way_.pop_front()) {
      const std::vector<uint8_t>& bytes = under_way_.front().bytes;
      if (write(to_, bytes.data(), bytes.size()) < 0) ++dropped_;
    }
  }

  bool idle() const { return under_way_.empty(); }
  int64_t passed() const { return passed_; }
  int64_t dropped() const { return dropped_; }

 private:
  struct Packet {
    Clock::time_point due;
    std::vector<uint8_t> bytes;
  };
  const Link link_;
  const int from_, to_;
  std::vector<uint8_t> packet_;
  std::deque<Packet> under_way_;  // Bounded by the queue and the delay at the line rate.
  Clock::time_point served_;      // When the last packet has left the queue.
  int64_t passed_ = 0, dropped_ = 0;
};

void Relay(const Link& link, int a, int b, int mtu) {
  Way there(link, a, b, mtu), back(link, b, a, mtu);
  pollfd devices[] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
  while (stopped == 0) {
    if (there.idle() && back.idle()) {
      poll(devices, 2, 1000);
    } else {
      const timespec tick{0, 100'000};
      nanosleep(&tick, nullptr);
    }
    const Clock::time_point now = Clock::now();
    for (Way* way : {&there, &back}) {
      way->Receive(now);
      way->Deliver(now);
    }
  }
  std::fprintf(stderr, "relay: there %lld packets, %lld dropped; back %lld, %lld dropped\n",
               static_cast<long long>(there.passed()), static_cast<long long>(there.dropped()),
               static_cast<long long>(back.passed()), static_cast<long long>(back.dropped()));
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  prctl(PR_SET_TIMERSLACK, 1000);
  const sched_param priority{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
    std::fprintf(stderr, "relay: no real-time priority; delays grow with the machine's load\n");
  }
  std::string near, far;
  double mbit = 1000, rtt_ms = 100, queue_bytes = 0;
  int mtu = 9000;
  const auto end = longhaul::benchmark::ReadFlags(
      "A long link between two network namespaces.", argc, argv,
      {{"--near", &near, "one namespace"},
       {"--far", &far, "the other"},
       {"--mbit", &mbit},
       {.name = "--rtt-ms", .value = &rtt_ms, .least = 0},
       {.name = "--mtu", .value = &mtu, .least = 576, .most = 65000},
       {"--queue-bytes", &queue_bytes, "default: one bandwidth-delay product"}});
  if (end) return *end;
  Link link{.bytes_per_second = mbit * 1e6 / 8, .delay = Seconds(rtt_ms / 2e3)};
  link.queue_bytes = queue_bytes > 0 ? queue_bytes : link.bytes_per_second * rtt_ms / 1e3;
  const int a = MakeDevice(near, mtu), b = MakeDevice(far, mtu);
  for (const int signal : {SIGTERM, SIGINT}) {
    struct sigaction action {};
    action.sa_handler = [](int) { stopped = 1; };
    sigaction(signal, &action, nullptr);
  }
  std::puts("ready");
  std::fflush(stdout);
  Relay(link, a, b, mtu);
  return 0;
}
