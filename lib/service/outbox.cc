#include "service/outbox.h"

#include <cerrno>
#include <utility>

namespace uroce::service {

void Outbox::post(Letter letter) {
  letters_.push_back(std::move(letter));
  if (letters_.size() == 1) flush();
}

void Outbox::flush() {
  while (!letters_.empty() && !broken_) {
    const host::Sent sent = send(letters_.front());
    if (sent == host::Sent::kLater) return;
    broken_ = sent == host::Sent::kNever;
    letters_.pop_front();
    text_sent_ = 0;
  }
  if (broken_) letters_.clear();
}

/// The whole of it, or of a text as many parts as the socket takes.
host::Sent Outbox::send(Letter& letter) {
  std::vector<int> descriptors;
  for (const auto& descriptor : letter.descriptors) descriptors.push_back(descriptor->get());
  if (letter.text == nullptr) return host::send_message(socket_, letter.message, descriptors);
  const std::string_view text(*letter.text);
  for (; text_sent_ < text.size(); text_sent_ += kPart) {
    host::set_text(letter.message.text, text.substr(text_sent_, kPart));
    const host::Sent sent = host::send_message(socket_, letter.message, descriptors);
    if (sent != host::Sent::kYes) return sent;
  }
  return host::Sent::kYes;
}

void Outbox::retract(uint32_t about) {
  using host::MessageType;
  std::erase_if(letters_, [&](const Letter& letter) {
    return letter.about == about && letter.message.type == MessageType::kIntroduction;
  });
  for (Letter& letter : letters_) {
    if (letter.about != about || letter.message.type != MessageType::kIntroduced) continue;
    const uint32_t request = letter.message.request;
    letter = {.message = {.type = MessageType::kDone, .request = request, .error = ESRCH}};
    host::set_text(letter.message.text, "the program has ended");
  }
}

}  // namespace uroce::service
