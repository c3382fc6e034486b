// Which chain of a capture listener takes a connection: Listener.filter_chain_matcher (xds.type.matcher.v3.Matcher).
// The inputs are those of envoy/extensions/matching/common_inputs/network/v3.
import { create, type DescMessage, type MessageInitShape } from '@bufbuild/protobuf';
import { StringValueSchema } from '@bufbuild/protobuf/wkt';
import {
  ApplicationProtocolInputSchema,
  DestinationIPInputSchema,
  DestinationPortInputSchema,
  TransportProtocolInputSchema,
} from '../gen/envoy/extensions/matching/common_inputs/network/v3/network_inputs_pb.js';
import { IpSchema } from '../gen/envoy/extensions/matching/input_matchers/ip/v3/ip_pb.js';
import {
  type Matcher,
  type Matcher_MatcherList_PredicateSchema,
  type Matcher_OnMatchSchema,
  MatcherSchema,
} from '../gen/xds/type/matcher/v3/matcher_pb.js';
import type { StringMatcherSchema } from '../gen/xds/type/matcher/v3/string_pb.js';
import { CAPTURE_PORTS, TCP_MESH_PORT } from '../mesh/constants.ts';
import { CHAIN_CAPTURE, CHAIN_TCP_BLACKHOLE } from '../mesh/names.ts';
import { extension } from './envoy-values.ts';

type Predicate = MessageInitShape<typeof Matcher_MatcherList_PredicateSchema>;
export type OnMatch = MessageInitShape<typeof Matcher_OnMatchSchema>;

/** Name of what a matcher looks at, where that is the address dialled. */
export const ADDRESS_INPUT = 'ip';

/** Cleartext HTTP goes to `capture`; everything else to the listener's default chain. */
export function matchHttp(): Matcher {
  return matcher([rule(notRedirected(), CHAIN_TCP_BLACKHOLE), rule(cleartextHttp(), CHAIN_CAPTURE)]);
}

/** The scoped form: only the mesh ports come here. 18082 without a declared TCP port leads nowhere; the rest is HTTP. */
export function matchScoped(): Matcher {
  const nowhere = anyOf([toLoopback(), onPorts([...CAPTURE_PORTS, TCP_MESH_PORT])]);
  return matcher([rule(nowhere, CHAIN_TCP_BLACKHOLE)], toChain(CHAIN_CAPTURE));
}

/** The first rule that holds; `otherwise` absent: the listener's default chain. */
export function matcher(matchers: { predicate: Predicate; onMatch: OnMatch }[], otherwise?: OnMatch): Matcher {
  return create(MatcherSchema, {
    matcherType: { case: 'matcherList', value: { matchers } },
    ...(otherwise === undefined ? {} : { onNoMatch: otherwise }),
  });
}

export function rule(predicate: Predicate, chain: string) {
  return { predicate, onMatch: toChain(chain) };
}

export function toChain(chain: string): OnMatch {
  return { onMatch: { case: 'action', value: extension('filter-chain-name', StringValueSchema, { value: chain }) } };
}

/**
 * A dial straight to a capture port was never redirected: its "original destination" is this listener, and following it
 * would connect the listener to itself until a circuit breaker ends it.
 */
export function notRedirected(): Predicate {
  return anyOf([toLoopback(), onPorts(CAPTURE_PORTS)]);
}

function toLoopback(): Predicate {
  const loopback = [
    { addressPrefix: '127.0.0.0', prefixLen: 8 },
    { addressPrefix: '::1', prefixLen: 128 },
  ];
  return destinationIn(loopback, 'loopback');
}

/** One pattern for all: each predicate carries the name of its input, which is twenty times as long as the value. */
export function onPorts(ports: readonly number[]): Predicate {
  return matches('port', DestinationPortInputSchema, oneOf(ports.map(String)));
}

/** Whether the address dialled is in one of the ranges; `statPrefix` names the matcher's counters. */
export function destinationIn(
  cidrRanges: { readonly addressPrefix: string; readonly prefixLen: number }[],
  statPrefix: string,
): Predicate {
  return {
    matchType: {
      case: 'singlePredicate',
      value: {
        input: extension(ADDRESS_INPUT, DestinationIPInputSchema),
        matcher: {
          case: 'customMatch',
          value: extension('ip', IpSchema, { cidrRanges, statPrefix }),
        },
      },
    },
  };
}

// The input yields the detected protocols in single quotes.
export function cleartextHttp(): Predicate {
  return allOf([
    matches('transport', TransportProtocolInputSchema, { case: 'exact', value: 'raw_buffer' }),
    matches('application', ApplicationProtocolInputSchema, oneOf(["'http/1\\.[01]'", "'h2c'"])),
  ]);
}

type Pattern = NonNullable<MessageInitShape<typeof StringMatcherSchema>['matchPattern']>;

// Patterns that hold of the whole text; one alone without a "|".
function oneOf(patterns: readonly string[]): Pattern {
  const engineType = { case: 'googleRe2' as const, value: {} };
  return { case: 'safeRegex', value: { engineType, regex: patterns.join('|') } };
}

function matches(name: string, schema: DescMessage, matchPattern: Pattern): Predicate {
  return {
    matchType: {
      case: 'singlePredicate',
      value: { input: extension(name, schema), matcher: { case: 'valueMatch', value: { matchPattern } } },
    },
  };
}

function anyOf(predicate: Predicate[]): Predicate {
  return { matchType: { case: 'orMatcher', value: { predicate } } };
}

export function allOf(predicate: Predicate[]): Predicate {
  return { matchType: { case: 'andMatcher', value: { predicate } } };
}
