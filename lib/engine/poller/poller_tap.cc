// What captures frames, put before a poller's port queue. In a file of its own: a compiler that sees the
// class guesses at each call of the queue that it is one.
#include "capture/tap.h"
#include "engine/poller/poller.h"

namespace uroce::engine {

void Poller::tap(capture::Tap* tap) {
  receive_.tap(tap);
  queue_ = tap != nullptr ? static_cast<port::PortQueue*>(tap) : &port_queue_;
}

void ReceiveStage::choose_source() {
  source_ = faults_ != nullptr ? static_cast<port::FrameSource*>(faults_) : &parts_.port_queue;
  if (tap_ == nullptr) return;
  tap_->set_source(*source_);
  source_ = tap_;
}

}  // namespace uroce::engine
