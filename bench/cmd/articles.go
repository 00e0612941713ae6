package main

import (
	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/replay"
)

func newArticlesCommand() *cobra.Command {
	var (
		seed     uint64
		jsonFile string
	)
	c := &cobra.Command{
		Use:   "articles",
		Short: "Repeat the published benchmark of KV-aware routing: hits over cache capacity, beside what was published",
		Long: `Articles repeats the benchmark of the articles on cluster-level prefix routing that this
project began from (4 nodes, 50 prompts with Zipf's weights, 10,000 requests) for every
policy, as a curve over how many prefixes a node keeps, beside the published 23, 31, 78,
85 and 92 %, and says which of them can hold. It then repeats their calculations: 94.4 %
of prefill saved, 20 to 5 GB, 32 times less to compute, 7 to 74 % by the order of a prompt.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var bar func(int)
			a, err := policies.RunArticles(cmd.Context(), seed, func(done, total int) {
				if bar == nil {
					bar = replay.NewProgress(cmd.ErrOrStderr(), total, "policies")
				}
				bar(done)
			})
			if err != nil {
				return err
			}
			if err := writeJSON(jsonFile, a); err != nil {
				return err
			}
			return a.Table(cmd.OutOrStdout())
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 1, "of draws and ties")
	c.Flags().StringVar(&jsonFile, "json", "", "also write the results to this file as JSON")
	return c
}
