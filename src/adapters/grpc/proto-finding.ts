// A finding of `check` between the domain's value and the message of aether.admin.v1.
import { create } from '@bufbuild/protobuf';
import type { Finding, FindingStatus } from '../../core/finding.ts';
import { Finding_Status, type Finding as FindingMessage, FindingSchema } from '../../gen/aether/admin/v1/admin_pb.js';

const STATUS: Readonly<Record<FindingStatus, Finding_Status>> = {
  ok: Finding_Status.OK,
  warn: Finding_Status.WARN,
  fail: Finding_Status.FAIL,
};

export function findingToMessage({ status, area, subject, message, remedy }: Finding): FindingMessage {
  return create(FindingSchema, { status: STATUS[status], area, subject, message, remedy });
}

/** A status that this program does not know is a warning: an agent of a later version has more to say. */
export function findingFromMessage({ status, area, subject, message, remedy }: FindingMessage): Finding {
  const known = (['ok', 'warn', 'fail'] as const).find((name) => STATUS[name] === status);
  return { status: known ?? 'warn', area, subject, message, remedy };
}
