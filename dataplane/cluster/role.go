package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// Role is the rights of the holder of a token of its own. The cluster's secret has all rights.
type Role string

// The roles. All of them read the records and the marks.
const (
	RoleNode     Role = "node"     // writes the record of the node of its name
	RoleRouter   Role = "router"   // writes a router's record, and marks for operators
	RoleOperator Role = "operator" // writes marks
)

// MinSecret is the least length of a secret from which tokens are made: a holder can try short
// ones out, as its token tells which one is right.
const MinSecret = 32

// holder is the process that a token is for; the zero holder has the cluster's secret, or needs
// none.
type holder struct {
	role Role
	name string
}

// user is the holder's name at NATS, and two tokens of its subjects.
func (h holder) user() string { return string(h.role) + "." + escape(h.name) }

func parseUser(user string) (holder, error) {
	role, name, _ := strings.Cut(user, ".")
	name, err := unescape(name)
	if err != nil {
		return holder{}, err
	}
	h := holder{Role(role), name}
	return h, h.check()
}

// processSuffix ends the name of a router with a token, so that each process has a record of its
// own.
var processSuffix = regexp.MustCompile(`-[0-9a-f]{16}$`)

func (h holder) check() error {
	switch h.role {
	case RoleNode, RoleOperator:
		return checkName(h.name)
	case RoleRouter:
		if !prefixForm.MatchString(h.name) || processSuffix.MatchString(h.name) {
			return fmt.Errorf("%w: router name %.64q: want up to 64 letters, digits, - and _", ErrConfig, h.name)
		}
		return nil
	}
	return fmt.Errorf("%w: role %.64q: want node, router or operator", ErrConfig, h.role)
}

// owner is the name in the token of the process that writes a record.
func (k key) owner() string {
	if k.kind == kindRouter {
		return processSuffix.ReplaceAllString(k.name, "")
	}
	return k.name
}

// writes reports whether the holder may write the record under k.
func (h holder) writes(k key) bool {
	switch h.role {
	case "":
		return true
	case RoleNode:
		return k.kind == kindNode && k.name == h.name
	case RoleRouter:
		return k.kind == kindRouter && k.owner() == h.name
	default:
		return false
	}
}

// marks reports whether the holder may write marks.
func (h holder) marks() bool { return h.role != RoleNode }

// keyPair returns the holder's key. It is never sent: the holder signs the server's nonce.
func (h holder) keyPair(secret string) (nkeys.KeyPair, error) {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("warmpath cluster token 1 " + h.user()))
	return nkeys.FromRawSeed(nkeys.PrefixByteUser, mac.Sum(nil))
}

// RoleToken makes the token of one node, router or operator from the cluster's secret. It does not
// tell the secret, and the same arguments always make the same token.
func RoleToken(secret string, role Role, name string) (string, error) {
	h := holder{role, name}
	if err := h.check(); err != nil {
		return "", fmt.Errorf("cannot make a token: %w", err)
	}
	if _, _, isToken := parseToken(secret); isToken || len(secret) < MinSecret {
		return "", fmt.Errorf("cannot make a token: %w: want the cluster's own --cluster-token, of at least %d characters", ErrConfig, MinSecret)
	}
	pair, err := h.keyPair(secret)
	if err != nil {
		return "", fmt.Errorf("cannot make a token: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return "", fmt.Errorf("cannot make a token: %w", err)
	}
	return h.user() + "." + string(seed), nil
}

// TokenHolder returns the role and name in a token of RoleToken; false: it is not such a token.
func TokenHolder(token string) (role Role, name string, ok bool) {
	h, _, ok := parseToken(token)
	return h.role, h.name, ok
}

func parseToken(token string) (h holder, pair nkeys.KeyPair, ok bool) {
	dot := strings.LastIndexByte(token, '.')
	if dot < 0 {
		return h, nil, false
	}
	pair, err := nkeys.FromSeed([]byte(token[dot+1:]))
	if err != nil {
		return h, nil, false
	}
	if h, err = parseUser(token[:dot]); err != nil {
		return holder{}, nil, false
	}
	return h, pair, true
}

// permissions are the holder's rights at NATS. JetStream is not among them: a user that may create
// a consumer or ask the API can have NATS deliver to any subject, which would be a right to write
// everything. A member with the secret does it for the holder: see the store.
func (h holder) permissions(prefix string) *server.Permissions {
	name := hex.EncodeToString([]byte(h.name)) // as hints and links name nodes
	publish := []string{requestSubject + ".>", storeSubject + "." + h.user()}
	listen := []string{beatSubject + ".>", requestSubject + ".>", replySubject + "." + h.user() + ".*"}
	switch h.role {
	case RoleNode:
		publish = append(publish, beatSubject+"."+kindNode+"."+escape(h.name), replySubject+".>", "kvtier.report."+h.user(), "link.*")
		listen = append(listen, "kvtier.join", "kvtier.question.*."+h.user(), "hint."+name, "link."+name)
	case RoleRouter:
		publish = append(publish, beatSubject+"."+kindRouter+"."+escape(h.name), "replica.*."+h.user(), "kvtier.join", "kvtier.question.>", "hint.*")
		listen = append(listen, "replica.>", "kvtier.report.>")
	}
	for _, list := range [][]string{publish, listen} {
		for i := range list {
			list[i] = prefix + "." + list[i]
		}
	}
	return &server.Permissions{Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: listen}}
}

// NATSUser returns a token's entry in the list of users in the configuration of a NATS server of
// the operator's own. It holds no secret.
func NATSUser(token, prefix string) (string, error) {
	h, pair, ok := parseToken(token)
	if !ok {
		return "", fmt.Errorf("cannot describe a NATS user: %w: the token is of no role", ErrConfig)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return "", fmt.Errorf("cannot describe a NATS user: %w", err)
	}
	p := h.permissions(prefix)
	quoted := func(list []string) string { return `["` + strings.Join(list, `", "`) + `"]` }
	return fmt.Sprintf("{ nkey: %s, permissions: {\n  publish: %s\n  subscribe: %s\n} } # %s\n",
		public, quoted(p.Publish.Allow), quoted(p.Subscribe.Allow), h.user()), nil
}
