#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/rdma_verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "ends.h"
#include "support/soon.h"

// Channels that are polled, changed and filled; ids without one; endpoints; many threads.
namespace uroce::rdmacm_test {
namespace {

using Channels = Ends;

TEST_F(Channels, NonBlocking_ExpectEagainUntilThereIsAnEvent) {
  ASSERT_EQ(fcntl(client_channel.get()->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(error_of(rdma_get_cm_event(client_channel.get(), &event)), EAGAIN);
  EXPECT_FALSE(client_channel.readable());
  listen();
  client = Id(client_channel);
  must(rdma_resolve_addr(client.get(), Address(at_client).get(), Address(at_server, 1).get(), 30'000));
  client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);  // polls first
  EXPECT_FALSE(client_channel.readable());
  EXPECT_EQ(error_of(rdma_get_cm_event(client_channel.get(), &event)), EAGAIN);
}

TEST_F(Channels, MigratedWithEvents_ExpectThemInTheOtherChannel) {
  listen();
  prepare();
  must(rdma_connect(client.get(), nullptr));
  ASSERT_TRUE(server_channel.readable(60'000));
  const Channel other;
  EXPECT_EQ(rdma_migrate_id(listener.get(), other.get()), 0);
  EXPECT_EQ(listener->channel, other.get());
  EXPECT_FALSE(server_channel.readable());
  server = Id(other.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
  EXPECT_EQ(server->channel, other.get());
  make_queue_pair(server);
  EXPECT_EQ(rdma_migrate_id(server.get(), server_channel.get()), 0);
  accept();
  server.end();
  listener.end();
}

TEST_F(Channels, ToSynchronousAndBack_ExpectCallsThatWaitAndThenEvents) {
  listen();
  prepare();
  EXPECT_EQ(rdma_migrate_id(client.get(), nullptr), 0);
  EXPECT_NE(client->channel, client_channel.get());
  std::thread serving([&] {
    server = Id(server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST)->id);
    make_queue_pair(server);
    must(rdma_accept(server.get(), nullptr));
    server_channel.take(RDMA_CM_EVENT_ESTABLISHED);
  });
  EXPECT_EQ(rdma_connect(client.get(), nullptr), 0);
  serving.join();
  ASSERT_NE(client->event, nullptr);
  EXPECT_EQ(client->event->event, RDMA_CM_EVENT_ESTABLISHED);
  exchange_data(client, server);
  EXPECT_EQ(rdma_migrate_id(client.get(), client_channel.get()), 0);
  EXPECT_EQ(client->event, nullptr);
  EXPECT_EQ(rdma_disconnect(client.get()), 0);
  client_channel.take(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(Channels, SynchronousAndRefused_ExpectEconnrefused) {
  listen();
  prepare();
  EXPECT_EQ(rdma_migrate_id(client.get(), nullptr), 0);
  listener.end();
  EXPECT_EQ(error_of(rdma_connect(client.get(), nullptr)), ECONNREFUSED);
  ASSERT_NE(client->event, nullptr);
  EXPECT_EQ(client->event->event, RDMA_CM_EVENT_REJECTED);
}

/// An id that joins 135 groups gets an event for every one, and one that ends before costs the others
/// nothing.
TEST_F(Channels, MoreEventsThanAPipeHolds_ExpectAllOfThemInOrder) {
  constexpr uint32_t kIds = 1000;
  constexpr uint32_t kGroups = 135;
  std::vector<Id> ids;
  for (uint32_t i = 0; i < kIds; ++i) {
    ids.emplace_back(client_channel, RDMA_PS_UDP);
    must(rdma_bind_addr(ids.back().get(), Address(at_client).get()));
  }
  for (uintptr_t group = 0; group < kGroups; ++group) {
    Address address("239.0.0." + std::to_string(group));
    for (const Id& id : ids)
      must(rdma_join_multicast(id.get(), address.get(), reinterpret_cast<void*>(group)));
  }
  // Half of them go before they have heard of anything.
  ids.resize(kIds / 2);
  for (uintptr_t group = 0; group < kGroups; ++group) {
    for (const Id& id : ids) {
      const Event event = client_channel.take(RDMA_CM_EVENT_MULTICAST_JOIN);
      ASSERT_EQ(event->id, id.get());
      ASSERT_EQ(event->param.ud.private_data, reinterpret_cast<void*>(group));
    }
  }
  EXPECT_FALSE(client_channel.readable());
}

TEST_F(Channels, SeveralEvents_ExpectReadableUntilTheLastIsTaken) {
  listen();
  std::vector<Id> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(caller(client_channel));  // has taken all of its events
    EXPECT_FALSE(client_channel.readable());
  }
  for (const Id& id : ids) must(rdma_connect(id.get(), nullptr));
  for (const Id& id : ids) {
    ASSERT_TRUE(server_channel.readable(60'000)) << id.get();
    const Event event = server_channel.take(RDMA_CM_EVENT_CONNECT_REQUEST);
    const Id refused(event->id);
    must(rdma_reject(event->id, nullptr, 0));
  }
  EXPECT_FALSE(server_channel.readable());
  // Without a look at the descriptor between them.
  ASSERT_TRUE(client_channel.readable(60'000));
  for (size_t i = 0; i < ids.size(); ++i) {
    rdma_cm_event* event = nullptr;
    must(rdma_get_cm_event(client_channel.get(), &event));
    EXPECT_EQ(Event(event)->event, RDMA_CM_EVENT_REJECTED);
  }
  EXPECT_FALSE(client_channel.readable());
}

/// What `body` returns in a forked child, which its alarm ends if it hangs.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST_F(Channels, ForkedChildThatDestroysAnIdWithAnEvent_ExpectTheParentToHearOfIt) {
  listen();
  client = Id(client_channel);
  must(rdma_resolve_addr(client.get(), Address(at_client).get(), Address(at_server, 1).get(), 30'000));
  ASSERT_TRUE(client_channel.readable(60'000));
  EXPECT_EQ(in_child([&] { return rdma_destroy_id(client.get()) == 0 ? 0 : 1; }), 0);
  EXPECT_TRUE(client_channel.readable());
  client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_FALSE(client_channel.readable());
}

/// As a program does that makes its channel before daemon().
TEST_F(Channels, ForkedChildWithAnIdOfItsOwn_ExpectItsEvents) {
  EXPECT_EQ(
      in_child([&] {
        const Id own(client_channel);
        must(rdma_resolve_addr(own.get(), Address(at_client).get(), Address(at_server, 1).get(), 30'000));
        if (!client_channel.readable(30'000)) return 1;
        client_channel.take(RDMA_CM_EVENT_ADDR_RESOLVED);
        return client_channel.readable() ? 2 : 0;
      }),
      0);
  EXPECT_FALSE(client_channel.readable());
}

/// Some of them find events while they turn the pollers, others are woken by the descriptor.
TEST_F(Channels, ThreadsThatWaitForTheSameEvents_ExpectEachEventOnce) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 40;
  constexpr uint32_t kGroups = 25;
  const Id id(client_channel, RDMA_PS_UDP);
  must(rdma_bind_addr(id.get(), Address(at_client).get()));
  std::atomic<int> taken = 0;
  const auto take_until = [&](int count) {
    while (taken < count) {
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(client_channel.get(), &event) != 0) {
        ASSERT_EQ(errno, EAGAIN);
        std::this_thread::yield();
        continue;
      }
      EXPECT_EQ(Event(event)->event, RDMA_CM_EVENT_MULTICAST_JOIN);
      ++taken;
    }
  };
  for (int round = 0; round < kRounds; ++round) {
    // A thread that finds all taken by others must not wait for ever, so in the end none of them waits.
    must(fcntl(client_channel.get()->fd, F_SETFL, round % 2 == 0 ? 0 : O_NONBLOCK));
    taken = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(take_until, kGroups - kThreads + 1);
    for (uint32_t group = 0; group < kGroups; ++group)
      must(rdma_join_multicast(id.get(), Address("239.0.0." + std::to_string(group)).get(), nullptr));
    for (std::thread& thread : threads) thread.join();
    for (int left = static_cast<int>(kGroups) - taken; left > 0; --left)
      client_channel.take(RDMA_CM_EVENT_MULTICAST_JOIN);
    EXPECT_FALSE(client_channel.readable());
    for (uint32_t group = 0; group < kGroups; ++group)
      must(rdma_leave_multicast(id.get(), Address("239.0.0." + std::to_string(group)).get()));
  }
}

/// Running, sleeping or the like; nullopt: it has ended.
std::optional<char> state_of_thread(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  return text.at(text.rfind(')') + 2);
}

/// rping's thread does so, when its main thread ends between two of its events.
TEST(DestroyedChannels, ThreadThatComesLater_ExpectItToWaitAsOneThatWasThere) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  ASSERT_NE(channel, nullptr);
  rdma_destroy_event_channel(channel);
  static std::atomic<pid_t> late = 0;
  static std::atomic<bool> returned = false;
  std::thread([channel] {
    late = gettid();
    rdma_cm_event* event = nullptr;
    static_cast<void>(rdma_get_cm_event(channel, &event));
    returned = true;
  }).detach();
  EXPECT_TRUE(soon([] { return returned || (late != 0 && state_of_thread(late) == 'S'); }));
  EXPECT_FALSE(returned);
}

TEST(Endpoints, BothSides_ExpectAConnectionInAFewCalls) {
  ibv_qp_init_attr wanted = queue_pair_of(IBV_QPT_RC);
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = RAI_PASSIVE;
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(kServer, "0", &hints, &found), 0);
  rdma_cm_id* listening = nullptr;
  must(rdma_create_ep(&listening, found, nullptr, &wanted));
  rdma_freeaddrinfo(found);
  must(rdma_listen(listening, 4));
  rdma_cm_id* none = nullptr;

  rdma_cm_id* served = nullptr;
  std::thread serving([&] {
    must(rdma_get_request(listening, &served));
    EXPECT_NE(served->qp, nullptr);
    EXPECT_EQ(private_data_of(*served->event).size(), 56U);
    must(rdma_accept(served, nullptr));
  });
  hints.ai_flags = 0;
  const std::string port = std::to_string(ntohs(rdma_get_src_port(listening)));
  ASSERT_EQ(rdma_getaddrinfo(kServer, port.c_str(), &hints, &found), 0);
  rdma_cm_id* calling = nullptr;
  must(rdma_create_ep(&calling, found, nullptr, &wanted));
  rdma_freeaddrinfo(found);
  EXPECT_NE(calling->qp, nullptr);
  must(rdma_connect(calling, nullptr));
  serving.join();
  {
    Id one(calling);
    Id other(served);
    exchange_data(one, other);
    EXPECT_EQ(error_of(rdma_get_request(calling, &none)), EINVAL);
  }
  rdma_destroy_ep(listening);
}

/// Takes requests, and destroys what it has taken: at once, after its answer, or with the next event.
class Server {
 public:
  explicit Server(const Channel& channel) : channel_(channel) {}

  void handle_event() {
    rdma_cm_event* face = nullptr;
    must(rdma_get_cm_event(channel_.get(), &face));
    Event event(face);
    rdma_cm_id* const id = event->id;
    const bool is_request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    event.reset();
    if (!is_request) {
      kept_.erase(id);
      return;
    }
    Id taken(id);
    if (++requests_ % 3 == 0) return;
    make_queue_pair(taken);
    must(rdma_accept(taken.get(), nullptr));
    if (requests_ % 3 == 1) kept_.emplace(id, std::move(taken));
  }

 private:
  const Channel& channel_;
  int requests_ = 0;
  std::map<rdma_cm_id*, Id> kept_;
};

TEST_F(Channels, TwoThreadsConnectWhileAThirdDestroys_ExpectEveryCallAnswered) {
  listen(64);
  std::atomic<int> callers = 2;
  const auto call = [&] {
    for (int i = 0; i < 200; ++i) {
      const Channel channel;
      const Id id = caller(channel);
      make_queue_pair(id);
      must(rdma_connect(id.get(), nullptr));
      ASSERT_TRUE(channel.readable(60'000));
      rdma_cm_event* event = nullptr;
      must(rdma_get_cm_event(channel.get(), &event));
      const Event answer(event);
      EXPECT_TRUE(answer->event == RDMA_CM_EVENT_ESTABLISHED || answer->event == RDMA_CM_EVENT_REJECTED ||
                  answer->event == RDMA_CM_EVENT_CONNECT_ERROR)
          << rdma_event_str(answer->event);
    }
    --callers;
  };
  std::vector<std::thread> threads;
  threads.emplace_back(call);
  threads.emplace_back(call);
  {
    Server serving(server_channel);
    while (callers != 0) {
      if (server_channel.readable(10)) serving.handle_event();
    }
    while (server_channel.readable()) serving.handle_event();
  }
  for (std::thread& thread : threads) thread.join();
  request();
  accept();
  exchange_data(client, server);
}

TEST(Sockets, AnyCall_ExpectEnosys) {
  using Call = int (*)(int, int, int);
  for (const char* const name :
       {"rsocket", "rbind", "rlisten", "raccept", "rconnect", "rsend", "rrecv", "rpoll", "rclose"}) {
    SCOPED_TRACE(name);
    const auto call = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
    ASSERT_NE(call, nullptr);
    errno = 0;
    EXPECT_EQ(call(0, 0, 0), -1);
    EXPECT_EQ(errno, ENOSYS);
  }
}

}  // namespace
}  // namespace uroce::rdmacm_test
