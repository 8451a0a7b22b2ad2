/** Which addresses and names are outside: everything that is not known to be is inside. */
import ipaddr from "ipaddr.js";

/** IPv4 that is not on the public internet (IANA special-purpose registry), and the relays of 6to4, which are deprecated. */
const BLOCKED_IPV4 = networks<ipaddr.IPv4>([
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "255.255.255.255/32",
]);

/** The only IPv6 that is given out to the public. NAT64, IPv4-mapped, unique local, link-local and the like are outside it. */
const PUBLIC_IPV6 = networks<ipaddr.IPv6>(["2000::/3"]);

/** What of it leads elsewhere all the same: protocol assignments with Teredo and ORCHID, documentation, 6to4, the old 6bone. */
const BLOCKED_IPV6 = networks<ipaddr.IPv6>(["2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20"]);

/** Names that mean this machine, or a cloud's or cluster's inside, whatever they resolve to. */
const BLOCKED_NAMES: ReadonlySet<string> = new Set([
  "localhost",
  "localhost.localdomain",
  "ip6-localhost",
  "ip6-loopback",
  "metadata",
  "metadata.google.internal",
  "metadata.goog",
  "kubernetes.default",
  "kubernetes.default.svc",
]);

/** An address as text, without brackets; an address with a zone is on a link of this machine, hence never public. */
export function isPublicAddress(address: string): boolean {
  if (address.includes("%")) return false;
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) {
    const parsed = ipaddr.IPv4.parse(address);
    return !BLOCKED_IPV4.some((network) => parsed.match(network));
  }
  if (!ipaddr.IPv6.isValid(address)) return false;
  const parsed = ipaddr.IPv6.parse(address);
  if (isTunnelled(parsed) || BLOCKED_IPV6.some((network) => parsed.match(network))) return false;
  return PUBLIC_IPV6.some((network) => parsed.match(network));
}

/** A host of a URL without its brackets and trailing dots; the URL parser has made it lower case and decoded it. */
export function bareHost(hostname: string): string {
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname.replace(/\.+$/, "");
}

/** Whether a host of a URL is an address: its parser turns every disguise (hexadecimal, one number…) into these two forms. */
export function isAddress(host: string): boolean {
  return ipaddr.IPv4.isValidFourPartDecimal(host) || ipaddr.IPv6.isValid(host);
}

/** @param host lower case, without trailing dots */
export function isBlockedName(host: string): boolean {
  return BLOCKED_NAMES.has(host) || host.endsWith(".localhost");
}

/** ISATAP (RFC 5214): an IPv4 address in an interface identifier, which a host may tunnel to. */
function isTunnelled(address: ipaddr.IPv6): boolean {
  const [, , , , universal = 0, protocol] = address.parts;
  return (universal === 0 || universal === 0x0200) && protocol === 0x5efe;
}

function networks<Address extends ipaddr.IPv4 | ipaddr.IPv6>(texts: string[]): [Address, number][] {
  return texts.map((text) => ipaddr.parseCIDR(text) as [Address, number]);
}
