#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace uroce::verbs {

/// A pipe of records of one size: what stands behind ibv_comp_channel.fd and ibv_context.async_fd. The
/// application polls the read end and may make it non-blocking; the write end is ours and never blocks. A
/// program that closes descriptors it does not know breaks the pipe, and a file of its own may get the
/// number: then nothing is read, written or closed any more. All members are thread-safe.
class EventPipe {
 public:
  /// The size of a record.
  static constexpr size_t kBytesMax = 16;

  explicit EventPipe(size_t record_bytes) : record_bytes_(record_bytes) {}
  ~EventPipe() { close(); }
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;

  /// 0 or errno. To be called once, before anything else.
  int open();
  [[nodiscard]] int read_fd() const { return read_fd_; }
  /// Breaks the pipe for good, as the destructor does. No thread may be in another member.
  void close();

  /// Any thread, a poller's too. False when the pipe is full and cannot grow, or broken.
  bool push(const void* record);
  /// Nothing can be read now. Any thread.
  [[nodiscard]] bool empty() const;
  /// Waits for a record, unless the application made the read end non-blocking. 0 or errno; EBADF: broken.
  /// The thread may be cancelled there.
  int pop(void* record);
  /// Takes the records out for which `unwanted` says so, and returns how many. The others may change their
  /// order.
  size_t remove_if(const std::function<bool(const void*)>& unwanted);

 private:
  /// The descriptor is still an end of this pipe.
  [[nodiscard]] bool is_end(int descriptor) const;

  const size_t record_bytes_;
  int read_fd_ = -1;
  int write_fd_ = -1;
  uint64_t inode_ = 0;  // of both ends, and of no other pipe
  std::mutex removal_;
};

}  // namespace uroce::verbs
