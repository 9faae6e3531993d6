// Checks what fate_flow writes about its record, by what docs/reference/record-format.md says and by libraries of
// others: the Go project's sumdb (notes, Merkle trees) and transparency-dev's formats (checkpoints, cosignatures). It
// shares no code with fate_flow. It also makes a log and proofs by these libraries, for fate_flow to check.
//
//	checker bundle FILE POLICY   a file of `fate_flow audit prove`, by the keys in a policy
//	checker evidence FILE POLICY a file of `fate_flow audit evidence`, by the keys in a policy
//	checker segment FILE         the root of the entries in a file of old entries
//	checker make SIZE            a log with a checkpoint, a cosignature and proofs
//
// What was found is printed as JSON. The first thing that does not hold ends the program with exit code 1.
package main

import (
	"bufio"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/transparency-dev/formats/log"
	cosignatures "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	proofBegins = "c2sp.org/tlog-proof@v1"
	cosignature = 4 // the type of a key of a witness, in a vkey
)

type policy struct {
	logs      map[string][]note.Verifier // by origin
	witnesses []note.Verifier
	names     map[string]string // of a witness in the policy, by the name of its key
}

type proved struct {
	Origin   string   `json:"origin"`
	Index    int64    `json:"index"`
	Size     int64    `json:"size"`
	Cosigned []string `json:"cosigned"`
	Opened   string   `json:"opened"`
	root     tlog.Hash
}

type entry struct {
	Entry, Proof, Salt, Text string
	Consistency              []string
}

func main() {
	found, err := run(os.Args[1:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) (any, error) {
	switch {
	case len(args) == 3 && args[0] == "bundle":
		return checkBundle(args[1], args[2])
	case len(args) == 3 && args[0] == "evidence":
		return checkEvidence(args[1], args[2])
	case len(args) == 2 && args[0] == "segment":
		return readSegment(args[1])
	case len(args) == 2 && args[0] == "make":
		size, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return nil, err
		}
		return makeLog(size)
	}
	return nil, errors.New("usage: checker bundle FILE POLICY | evidence FILE POLICY | segment FILE | make SIZE")
}

func checkBundle(file, policyFile string) (any, error) {
	var bundle struct{ Entries, Anchors []entry }
	keys, err := readBoth(file, policyFile, "fate_flow record bundle", &bundle)
	if err != nil {
		return nil, err
	}
	entries, err := checkEntries(bundle.Entries, "message", keys)
	if err != nil {
		return nil, fmt.Errorf("entries: %w", err)
	}
	anchors, err := checkEntries(bundle.Anchors, "own", keys)
	if err != nil {
		return nil, fmt.Errorf("anchors: %w", err)
	}
	for at, anchor := range anchors {
		if err := checkAnchor(anchor, bundle.Anchors[at].Consistency, entries); err != nil {
			return nil, fmt.Errorf("anchors[%d]: %w", at, err)
		}
	}
	return map[string]any{"entries": entries, "anchors": anchors}, nil
}

func checkEntries(listed []entry, commitment string, keys policy) ([]proved, error) {
	found := []proved{}
	for at, one := range listed {
		checked, err := checkEntry(one, commitment, keys)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", at, err)
		}
		found = append(found, checked)
	}
	return found, nil
}

// checkEntry checks the proof of an entry, the signatures below it, and what opens its commitment.
func checkEntry(one entry, commitment string, keys policy) (proved, error) {
	head, signed, isWhole := strings.Cut(one.Proof, "\n\n")
	lines := strings.Split(head, "\n")
	if !isWhole || len(lines) < 2 || lines[0] != proofBegins || !strings.HasPrefix(lines[1], "index ") {
		return proved{}, errors.New("is no proof")
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
	if err != nil {
		return proved{}, err
	}
	hashes, err := parseHashes(lines[2:])
	if err != nil {
		return proved{}, err
	}
	checkpoint, signers, err := keys.open(signed)
	if err != nil {
		return proved{}, err
	}
	root, leaf := tlog.Hash(checkpoint.Hash), tlog.RecordHash([]byte(one.Entry))
	if err := tlog.CheckRecord(hashes, int64(checkpoint.Size), root, index, leaf); err != nil {
		return proved{}, err
	}
	if one.Salt != "" {
		if err := checkCommitment(one, commitment); err != nil {
			return proved{}, err
		}
	}
	return proved{checkpoint.Origin, index, int64(checkpoint.Size), signers, one.Text, root}, nil
}

func checkCommitment(one entry, name string) error {
	var said map[string]any
	if err := json.Unmarshal([]byte(one.Entry), &said); err != nil {
		return err
	}
	salt, err := hex.DecodeString(one.Salt)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte("fate_flow record v1\n" + name + "\n" + string(salt) + one.Text))
	if said[name] != hex.EncodeToString(digest[:]) {
		return fmt.Errorf("the text is not what %s commits to", name)
	}
	return nil
}

// checkAnchor checks that the head that was committed to is a beginning of the one by which the entries of its log are
// proved.
func checkAnchor(anchor proved, consistency []string, entries []proved) error {
	var held log.Checkpoint
	if _, err := held.Unmarshal([]byte(anchor.Opened)); err != nil {
		return err
	}
	hashes, err := parseHashes(consistency)
	if err != nil {
		return err
	}
	isOf := false
	for _, one := range entries {
		if one.Origin != held.Origin {
			continue
		}
		isOf = true
		proof := tlog.TreeProof(hashes)
		if err := tlog.CheckTree(proof, one.Size, one.root, int64(held.Size), tlog.Hash(held.Hash)); err != nil {
			return err
		}
	}
	if !isOf {
		return fmt.Errorf("no entry is of %s", held.Origin)
	}
	return nil
}

// checkEvidence checks that each two heads were signed by their own log, and that no log can have both.
func checkEvidence(file, policyFile string) (any, error) {
	var found struct {
		Evidence []struct {
			First, Second string
			Shown         []string
		}
	}
	keys, err := readBoth(file, policyFile, "fate_flow record evidence", &found)
	if err != nil {
		return nil, err
	}
	if len(found.Evidence) == 0 {
		return nil, errors.New("the file has no evidence")
	}
	listed := []map[string]any{}
	for at, one := range found.Evidence {
		first, _, err := keys.open(one.First)
		if err != nil {
			return nil, err
		}
		second, _, err := keys.open(one.Second)
		if err != nil {
			return nil, err
		}
		shown, err := parseHashes(one.Shown)
		if err != nil {
			return nil, err
		}
		if err := checkPasts(first, second, shown); err != nil {
			return nil, fmt.Errorf("evidence[%d]: %w", at, err)
		}
		listed = append(listed, map[string]any{"origin": first.Origin, "sizes": []uint64{first.Size, second.Size}})
	}
	return map[string]any{"evidence": listed}, nil
}

func checkPasts(first, second log.Checkpoint, shown []tlog.Hash) error {
	if first.Origin != second.Origin {
		return errors.New("these are two logs")
	}
	root, other := tlog.Hash(first.Hash), tlog.Hash(second.Hash)
	if first.Size != second.Size {
		if len(shown) == 0 {
			return errors.New("nothing shows the root that the second one had at the size of the first one")
		}
		proof := tlog.TreeProof(shown[1:])
		if err := tlog.CheckTree(proof, int64(second.Size), other, int64(first.Size), shown[0]); err != nil {
			return err
		}
		other = shown[0]
	}
	if root == other {
		return errors.New("one log can have both")
	}
	return nil
}

func parseHashes(lines []string) (tlog.RecordProof, error) {
	found := tlog.RecordProof{}
	for _, line := range lines {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return nil, err
		}
		found = append(found, hash)
	}
	return found, nil
}

// readBoth reads a file of this format into `found`, and the policy.
func readBoth(file, policyFile, format string, found any) (policy, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return policy{}, err
	}
	var head struct {
		Format  string
		Version int
	}
	if err := errors.Join(json.Unmarshal(content, &head), json.Unmarshal(content, found)); err != nil {
		return policy{}, err
	}
	if head.Format != format || head.Version != 1 {
		return policy{}, fmt.Errorf("%q of version %d is no %s", head.Format, head.Version, format)
	}
	return readPolicy(policyFile)
}

func readPolicy(file string) (policy, error) {
	found := policy{map[string][]note.Verifier{}, nil, map[string]string{}}
	content, err := os.ReadFile(file)
	if err != nil {
		return found, err
	}
	for _, line := range strings.Split(string(content), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) >= 2 && words[0] == "log":
			key, err := note.NewVerifier(words[1])
			if err != nil {
				return found, err
			}
			found.logs[key.Name()] = append(found.logs[key.Name()], key)
		case len(words) >= 3 && words[0] == "witness":
			key, err := witnessKey(words[2])
			if err != nil {
				return found, err
			}
			found.witnesses = append(found.witnesses, key)
			found.names[key.Name()] = words[1]
		}
	}
	return found, nil
}

// witnessKey reads a vkey of type 4. The library takes the key as one of type 1, and says which id it has as a witness.
func witnessKey(text string) (note.Verifier, error) {
	parts := strings.SplitN(text, "+", 3)
	if len(parts) != 3 {
		return nil, fmt.Errorf("%q is no key", text)
	}
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) != 33 || raw[0] != cosignature {
		return nil, fmt.Errorf("%q is no key of a witness", text)
	}
	raw[0] = 1
	key, err := cosignatures.NewVerifierForCosignatureV1(
		parts[0] + "+" + parts[1] + "+" + base64.StdEncoding.EncodeToString(raw))
	if err == nil && fmt.Sprintf("%08x", key.KeyHash()) != parts[1] {
		err = fmt.Errorf("the key %q has the id %08x", text, key.KeyHash())
	}
	return key, err
}

// open returns a checkpoint that its own log has signed, and the witnesses that have cosigned it.
func (keys policy) open(signed string) (log.Checkpoint, []string, error) {
	var found log.Checkpoint
	origin, _, _ := strings.Cut(signed, "\n")
	verifiers := append(append([]note.Verifier{}, keys.logs[origin]...), keys.witnesses...)
	opened, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
	if err != nil {
		return found, nil, err
	}
	if _, err := found.Unmarshal([]byte(opened.Text)); err != nil {
		return found, nil, err
	}
	isOwn, signers := false, []string{}
	for _, one := range opened.Sigs {
		if one.Name == origin {
			isOwn = true
		} else {
			signers = append(signers, keys.names[one.Name])
		}
	}
	if !isOwn {
		return found, nil, fmt.Errorf("%s has not signed its checkpoint", origin)
	}
	return found, signers, nil
}

func readSegment(file string) (any, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	unpacked, err := gzip.NewReader(opened)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(unpacked)
	lines.Buffer(nil, 1<<24)
	var about struct {
		Format, Log       string
		Epoch, First, End int64
	}
	if !lines.Scan() {
		return nil, errors.New("the file is empty")
	}
	if err := json.Unmarshal(lines.Bytes(), &about); err != nil {
		return nil, err
	}
	tree := tree{}
	for lines.Scan() {
		var one entry
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, err
		}
		tree.add([]byte(one.Entry))
	}
	if about.Format != "fate_flow record segment" || tree.size != about.End-about.First {
		return nil, fmt.Errorf("%q has %d entries", about.Format, tree.size)
	}
	return map[string]any{
		"log": about.Log, "epoch": about.Epoch, "first": about.First, "end": about.End,
		"root": hex.EncodeToString(tree.root()),
	}, lines.Err()
}

// tree is a log in memory, with the hashes that tlog asks for.
type tree struct {
	size   int64
	hashes []tlog.Hash
}

func (log *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := []tlog.Hash{}
	for _, index := range indexes {
		found = append(found, log.hashes[index])
	}
	return found, nil
}

func (log *tree) add(record []byte) {
	hashes, err := tlog.StoredHashes(log.size, record, log)
	if err != nil {
		panic(err)
	}
	log.hashes, log.size = append(log.hashes, hashes...), log.size+1
}

func (log *tree) root() []byte {
	hash, err := tlog.TreeHash(log.size, log)
	if err != nil {
		panic(err)
	}
	return hash[:]
}

func makeLog(size int64) (any, error) {
	secret, key, err := note.GenerateKey(rand.Reader, "log.example/go")
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		return nil, err
	}
	secret, witness, err := note.GenerateKey(rand.Reader, "witness.example/go")
	if err != nil {
		return nil, err
	}
	cosigner, err := cosignatures.NewSignerForCosignatureV1(secret)
	if err != nil {
		return nil, err
	}
	made, records := &tree{}, []string{}
	for index := int64(0); index < size; index++ {
		records = append(records, fmt.Sprintf("record %d", index))
		made.add([]byte(records[index]))
	}
	checkpoint := log.Checkpoint{Origin: signer.Name(), Size: uint64(size), Hash: made.root()}
	signed, err := note.Sign(&note.Note{Text: string(checkpoint.Marshal())}, signer, cosigner)
	if err != nil {
		return nil, err
	}
	proofs, beginnings := []string{}, []map[string]any{}
	for index := int64(0); index < size; index++ {
		proof, err := tlog.ProveRecord(size, index, made)
		if err != nil {
			return nil, err
		}
		lines := []string{proofBegins, fmt.Sprintf("index %d", index)}
		proofs = append(proofs, strings.Join(append(lines, texts(proof)...), "\n")+"\n\n"+string(signed))
		root, err := tlog.TreeHash(index+1, made)
		if err != nil {
			return nil, err
		}
		beginning, err := tlog.ProveTree(size, index+1, made)
		if err != nil {
			return nil, err
		}
		beginnings = append(beginnings, map[string]any{"root": root.String(), "hashes": texts(beginning)})
	}
	return map[string]any{
		"log_key": key, "witness_key": asWitness(witness, cosigner.KeyHash()), "records": records, "proofs": proofs,
		"beginnings": beginnings,
	}, nil
}

func texts(hashes []tlog.Hash) []string {
	found := []string{}
	for _, hash := range hashes {
		found = append(found, hash.String())
	}
	return found
}

// asWitness returns a key of type 1 as one of type 4, with the id that it has then.
func asWitness(text string, id uint32) string {
	parts := strings.SplitN(text, "+", 3)
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		panic(err)
	}
	raw[0] = cosignature
	name := binary.BigEndian.AppendUint32(nil, id)
	return strings.Join([]string{parts[0], hex.EncodeToString(name), base64.StdEncoding.EncodeToString(raw)}, "+")
}
