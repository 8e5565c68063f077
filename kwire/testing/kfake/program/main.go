// kfake as a program: reads what to be from the first line of its input, a JSON object, says in a line where it listens,
// and ends when its input does, so that it never outlives the process that started it. Secrets come by the input alone: arguments
// and the environment can be read by others.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type user struct {
	Mechanism string `json:"mechanism"`
	Name      string `json:"name"`
	Password  string `json:"password"`
	Superuser bool   `json:"superuser"`
	ACLs      []acl  `json:"acls"`
}

type acl struct {
	Resource  string `json:"resource"`
	Name      string `json:"name"`
	Operation string `json:"operation"`
	Prefixed  bool   `json:"prefixed"`
	Allow     bool   `json:"allow"`
}

type certificates struct {
	Certificate string `json:"certificate"` // file names, all three
	Key         string `json:"key"`
	ClientCA    string `json:"client_ca"` // if there is one, clients have to show a certificate
}

type wishes struct {
	Brokers           int               `json:"brokers"`
	Topics            map[string]int32  `json:"topics"`
	Settings          map[string]string `json:"settings"`
	MinSessionTimeout int               `json:"min_session_timeout_ms"`
	TLS               *certificates     `json:"tls"`
	Users             []user            `json:"users"`
	Authorize         bool              `json:"authorize"`
}

func main() {
	if err := run(bufio.NewReader(os.Stdin)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(input *bufio.Reader) error {
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the first line of the input says what to be: %w", err)
	}
	var wanted wishes
	if err := json.Unmarshal(line, &wanted); err != nil {
		return fmt.Errorf("the first line of the input is no JSON that I know: %w", err)
	}
	options, err := optionsOf(wanted)
	if err != nil {
		return err
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	defer cluster.Close()
	fmt.Println("listening", strings.Join(cluster.ListenAddrs(), ","))
	_, err = io.Copy(io.Discard, input)
	return err
}

func optionsOf(wanted wishes) ([]kfake.Opt, error) {
	minimum := time.Duration(wanted.MinSessionTimeout) * time.Millisecond
	options := []kfake.Opt{
		kfake.NumBrokers(wanted.Brokers),
		kfake.AllowAutoTopicCreation(),
		kfake.DefaultNumPartitions(1),
		kfake.GroupMinSessionTimeout(minimum),
		kfake.BrokerConfigs(wanted.Settings),
	}
	for name, partitions := range wanted.Topics {
		options = append(options, kfake.SeedTopics(partitions, name))
	}
	if wanted.TLS != nil {
		secured, err := tlsOf(*wanted.TLS)
		if err != nil {
			return nil, err
		}
		options = append(options, kfake.TLS(secured))
	}
	if len(wanted.Users) > 0 {
		options = append(options, kfake.EnableSASL())
	}
	for _, each := range wanted.Users {
		added, err := userOf(each)
		if err != nil {
			return nil, err
		}
		options = append(options, added)
	}
	if wanted.Authorize {
		options = append(options, kfake.EnableACLs())
	}
	return options, nil
}

func tlsOf(files certificates) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		return nil, err
	}
	secured := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if files.ClientCA == "" {
		return secured, nil
	}
	pem, err := os.ReadFile(files.ClientCA)
	if err != nil {
		return nil, err
	}
	secured.ClientCAs = x509.NewCertPool()
	if !secured.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New(files.ClientCA + " has no certificate in PEM")
	}
	secured.ClientAuth = tls.RequireAndVerifyClientCert
	return secured, nil
}

func userOf(wanted user) (kfake.Opt, error) {
	if wanted.Superuser {
		return kfake.Superuser(wanted.Mechanism, wanted.Name, wanted.Password), nil
	}
	granted := make([]kfake.ACL, 0, len(wanted.ACLs))
	for _, each := range wanted.ACLs {
		resource, err := kmsg.ParseACLResourceType(each.Resource)
		if err != nil {
			return nil, err
		}
		operation, err := kmsg.ParseACLOperation(each.Operation)
		if err != nil {
			return nil, err
		}
		pattern := kmsg.ACLResourcePatternTypeLiteral
		if each.Prefixed {
			pattern = kmsg.ACLResourcePatternTypePrefixed
		}
		granted = append(granted, kfake.ACL{
			Resource: resource, Name: each.Name, Pattern: pattern, Operation: operation, Allow: each.Allow,
		})
	}
	return kfake.User(wanted.Mechanism, wanted.Name, wanted.Password, granted...), nil
}
