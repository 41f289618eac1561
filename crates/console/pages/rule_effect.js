// The effect of a rule on recorded calls, in words.

import { count } from "./format.js";

/** `would have asked 12 (allowed 11, denied 1), 88 unchanged`. */
export function words(effect) {
  const parts = [
    effect.asked > 0 && `would have asked ${count(effect.asked)} (allowed ${count(effect.askedAllowed)}, denied ${count(effect.askedDenied)})`,
    effect.allowed > 0 && `would have allowed ${count(effect.allowed)}`,
    effect.denied > 0 && `would have denied ${count(effect.denied)}`,
    effect.organization > 0 && `${count(effect.organization)} of these by the organisation’s rules`,
    effect.released > 0 && `would no longer have decided ${count(effect.released)}`,
    `${count(effect.unchanged - effect.released)} unchanged`,
  ];
  return parts.filter(Boolean).join(", ");
}
